// The memory and time that a run will take, for --dry-run. The algorithm states its memory, and a
// trial gives the time.
//
//   training clock
//     |                          * end of the budget
//     |                     . '
//     |               x end of the trial (2 half)
//     |         x middle: last evaluation in the first half
//     |  .-'  (start-up, first mega-batch)
//     +-------------------------------------------- samples
//
// Each half is at least a mega-batch, and eight batches per worker. The line begins at the middle,
// because the start of a run has a pace of its own.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "algorithm/algorithm.hpp"
#include "data/dataset.hpp"
#include "training/simulation/charge.hpp"
#include "training/training.hpp"

namespace hetsgd {

// {config, charge, estimate, warnings} of the run that the options describe. The warnings are those
// that arise before the run. Nothing is written. Throws what the run throws.
//
// On sim and threads the estimate comes from a trial, which is the same run with all its messages
// and stragglers. It is cut to the two halves above, and to at most kTrialLimit of wall-clock time.
// It measures its models on part of the test rows. Its second half is extended to the whole budget
// (or --max-time). So later changes in the run (a straggler that comes and goes, batch sizes that
// move, a target that ends it) are not foreseen. A run that is no longer than its trial is run
// whole, so they are foreseen.
//
// With delays that are drawn anew in every iteration, train_s is within a factor of 1.5 of a
// simulated run (estimate_test). host_s assumes a host as busy as now. Where workers are processes
// of their own there is no trial, and `no_time` refers to --cluster sim, which predicts the time.
nlohmann::json plan_of_run(const RunSpec& spec);

// The input of the estimate by arithmetic alone: memory and the work of a step
// (Training::estimate).
struct EstimatedRun {
  const Plan& plan;
  const Algorithm& algorithm;
  const Model& model;
  const Charge* charge = nullptr;
  const Dataset& train;
  const TablePlan* tables = nullptr;  // sharded ones
};

// The work of a batch of b_max with the data's averages (sequences have their mean length), as the
// simulated clock charges it on a device of these rates. With null `rates` it leaves out the part
// that depends on the device.
Work step_work(const Model& model, const Charge* charge, const Dataset& train, const Plan& plan,
               const DeviceRates* rates);

// {parameters, memory_bytes, operations_per_step, max_samples}, and table_bytes with sharded
// tables. Memory is that of all workers together: the algorithm's vectors, a batch of scores, and
// the shards.
nlohmann::json estimate_of(const EstimatedRun& run);

}  // namespace hetsgd
