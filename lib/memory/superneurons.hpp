// The recomputation of policy `superneurons`: maps that the forward pass drops and the backward
// pass computes again.
//
// Source    : SuperNeurons (PPoPP 2018), section 3.4, cost-aware recomputation.
// Checkpoint: input, conv, fc, lstm, embed, linear, attention, add, concat, softmax, and an output
//             that several nodes read (a fork, or a copy that stands for one). Their maps stay
//             or move as the policy says.
// Segment   : the nodes from one checkpoint to the next, a chain of one input and one reader each.
//             Their maps are dropped after their last forward use. l_peak is the largest need of a
//             backward step.
//               maps of the checkpoint and the segment, together <= l_peak
//                            computed again once, before the first step that reads one of them,
//                            and kept until their last uses (the source: speed-centric)
//               otherwise    computed again before every step that reads one, and dropped after it
//                            (memory-centric)
// Deviations: the source has no lstm, linear or attention. They are checkpoints here, being as
//             costly as a convolution. So is embed, whose parameters may be those of the softmax.
//             The checkpoint's map counts as a part of the segment, since it must be there. Without
//             it AlexNet's first segment would be kept and take 993 MiB at step 43, where the
//             source reports a peak of 886 at step 44. Masks and statistics stay, being small.
#pragma once

#include "memory/training_step.hpp"

namespace hetsgd {

// The same training step with the same tensors. Maps between checkpoints are marked; backward steps
// name the nodes that are computed again before them, and use the checkpoints' maps for it.
TrainingStep with_recomputation(const TrainingStep& training);

}  // namespace hetsgd
