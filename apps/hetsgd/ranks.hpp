// What the processes of `--cluster mpi` do together, beside the training.
#pragma once

#include <functional>

#include "training/train_options.hpp"

namespace hetsgd {

// Whether this process talks and writes: rank 0 does, and every process of another cluster.
bool speaks(const TrainOptions& options);

// decide() of the process that speaks, on all of them. Collective. Error(runtime) if rank 0 says
// nothing.
bool decide_together(const TrainOptions& options, const std::function<bool()>& decide);

}  // namespace hetsgd
