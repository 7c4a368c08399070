// Carries out a tuning, with output, progress, signals, the table at the end, and the exit code.
#pragma once

#include <string>
#include <vector>

#include "experiment/sweep.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Runs the trials of a specification that has no other runs, and writes the choice when all have
// ended. `training` has the output file and the options of reporting. Trials are kept in a folder
// beside the choice (OUTPUT.trials). So the same command resumes an interrupted tuning, and one
// with more algorithms, rates or seeds runs only the new trials. Without an output file, or with a
// stream, the folder is temporary.
//
// Exit codes: 0: success, also if trials diverged. 1: a trial failed. 6: --time-limit. 128 +
// signal: interrupted.
int run_tuning(const SweepSpec& spec, const SweepOptions& options, const TrainOptions& training,
               const std::vector<std::string>& arguments);

}  // namespace hetsgd
