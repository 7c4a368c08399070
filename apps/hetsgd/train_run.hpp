// Carrying out one run: output, progress, signals, exit code.
#pragma once

#include "result/result.hpp"
#include "training/training.hpp"

namespace hetsgd {

// Runs and writes the result as the options say, with what `result` adds to it. Errors: those of
// the run, after its result was written.
//
// Exit codes: 0; 3 a target was missed under --require-target; 6 --time-limit; 128 + signal. A run
// that diverged is a result like any other: 0 and a warning.
int run_training(const RunSpec& spec, const ResultOptions& result);

}  // namespace hetsgd
