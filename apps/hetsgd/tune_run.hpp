// Carrying out a tuning: output, progress, signals, the table at the end, exit code.
#pragma once

#include <string>
#include <vector>

#include "experiment/sweep.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Runs the trials of the specification, which has no others, and writes the choice when all have
// ended. `training` says where to, and how to report. Trials lie in a folder beside the choice
// (OUTPUT.trials), so that the same command goes on where it was cut off, and one with more
// algorithms, rates or seeds runs those alone; without an output, or with a stream, in a folder that
// goes with the call.
//
// Exit codes: 0; 1 a trial failed (a diverged one is a trial like any other); 6 --time-limit; 128 +
// signal.
int run_tuning(const SweepSpec& spec, const SweepOptions& options, const TrainOptions& training,
               const std::vector<std::string>& arguments);

}  // namespace hetsgd
