// Maps that the forward pass drops and the backward pass computes again.
//
// Source    : SuperNeurons (PPoPP 2018), section 3.4, cost-aware recomputation.
// Checkpoint: input, conv, fc, lstm, add, concat, softmax, and what several nodes read (a fork, or
//             a copy that stands for one). Their maps stay or move as the policy says.
// Segment   : the nodes from one checkpoint to the next, a chain of one input and one reader each.
//             Their maps go after their last forward use. l_peak is the largest need of a backward
//             step.
//               maps of the checkpoint and the segment, together <= l_peak
//                            made again once, before the first step that reads one of them, and
//                            kept to their last uses (the source: speed-centric)
//               otherwise    made again before every step that reads one, and dropped after it
//                            (memory-centric)
// Deviations: the source has no lstm; as costly as a convolution, it is a checkpoint. The
//             checkpoint's map counts as a part of the segment, since it must be there: without it
//             AlexNet's first segment would be kept and take 993 MiB at step 43, where the source
//             reports a peak of 886 at step 44. Masks and statistics stay, being small.
#pragma once

#include "memory/lifetime.hpp"

namespace hetsgd {

// The same step of training with the same tensors: maps between checkpoints are marked, backward
// steps name the nodes that are computed again before them, and use the checkpoints' maps for it.
TrainingStep with_recomputation(const TrainingStep& training);

}  // namespace hetsgd
