// Carries out a sweep with messages and exit code, or prints its plan or commands instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiment/sweep.hpp"

namespace hetsgd {

// Carries out the remaining runs and reports the outcome. Exit codes: 0: success. 1: a run failed,
// and each failed run is named. 6: max_wall. 128 + signal: interrupted.
int run_sweep(Sweep& sweep, const SweepPlan& plan, const SweepFolder& folder,
              const SweepOptions& options);

// Prints the plan as a table: runs by setup and case, the finished ones, and an estimate of
// wall-clock time and disk space.
int print_sweep_plan(Sweep& sweep, const SweepPlan& plan, const SweepFolder& folder,
                     const SweepOptions& options);

// Prints a self-contained command for each run of the next stage.
int print_sweep_commands(Sweep& sweep, const SweepPlan& plan);

}  // namespace hetsgd
