// Carrying out a tuning: output, progress, signals, the table at the end, exit code.
#pragma once

#include <string>
#include <vector>

#include "experiment/tuner.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Runs the trials and writes the choice after each of them. `training` says where to, and how to
// report.
//
// Exit codes: 0; 1 a trial failed (a diverged one is a trial like any other); 6 --time-limit; 128 +
// signal.
int run_tuning(TunerOptions options, const TrainOptions& training,
               const std::vector<std::string>& arguments);

}  // namespace hetsgd
