// Carrying out a sweep: what it says on the way, its plan and commands in place of running, exit
// code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiment/sweep.hpp"

namespace hetsgd {

// Runs what is left and says how it went. Exit codes: 0; 1 a run failed, each one named; 6
// max_wall; 128 + signal.
int run_sweep(Sweep& sweep, const SweepPlan& plan, const SweepFolder& folder,
              const SweepOptions& options);

// Prints the plan as a table: runs by setup and case, what is done, and an estimate of host time
// and disk.
int print_sweep_plan(Sweep& sweep, const SweepPlan& plan, const SweepFolder& folder,
                     const SweepOptions& options);

// Prints a self-contained command for each run of the stage that comes next.
int print_sweep_commands(Sweep& sweep, const SweepPlan& plan);

}  // namespace hetsgd
