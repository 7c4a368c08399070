// What the processes of `--cluster mpi` do together, beside the training.
#pragma once

#include <functional>

#include "training/train_options.hpp"

namespace hetsgd {

// Whether this process talks and writes: rank 0 does, and every process of another cluster.
bool speaks(const TrainOptions& options);

// Runs `fn` on all processes and returns what it returned on the one that speaks. Collective. The
// error of one is an error of all, with its text and exit code.
double together(const TrainOptions& options, const std::function<double()>& fn);

// decide() of the process that speaks, on all of them. Collective.
bool decide_together(const TrainOptions& options, const std::function<bool()>& decide);

// In a catch block of all processes: throws the error of the lowest of them.
[[noreturn]] void rethrow_together();

// Before options are read: only the first of several processes uses stderr.
void start_talking_as_rank();

// Talking as --quiet, --color and --log-dir say; only the process that speaks uses stderr. Errors:
// runtime (no such file can be written).
void start_talking_as(const TrainOptions& options);

}  // namespace hetsgd
