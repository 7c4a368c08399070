// What a run will take, for --dry-run: memory by the algorithm's own account, time by trying.
//
//   training clock
//     |                          * end of the budget
//     |                     . '
//     |               x end of the trial (2 half)
//     |         x middle: last evaluation in the first half
//     |  .-'  (start-up, first mega-batch)
//     +-------------------------------------------- samples
//
// Each half is a mega-batch at least, and eight batches for every worker. The line begins at the
// middle, because what is peculiar to the start of a run lies before it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "algorithm/algorithm.hpp"
#include "data/dataset.hpp"
#include "training/simulation/charge.hpp"
#include "training/training.hpp"

namespace hetsgd {

// {config, charge, estimate, warnings} of the run that the options describe; the warnings are
// those that are there before it. On sim and threads the estimate comes from a trial: the same run
// with all its messages and stragglers, cut to a few iterations and at most two mega-batches, with
// its models measured on part of the test rows; and at most kTrialLimit of host time. Its second
// half is extended to the whole budget (or --max-time). So what changes later in the run (a
// straggler that comes and goes, batch sizes that move, a target that ends it) is not foreseen; a
// run that is no longer than its trial is. With delays that are drawn anew in every iteration,
// train_s is within a factor of 1.5 of a simulated run (estimate_test); host_s counts on a host as
// busy as now. Nothing is written. Where workers are processes of their own there is no trial, and
// `no_time` names --cluster sim, which predicts it. Errors: those of the run.
nlohmann::json plan_of_run(const RunSpec& spec);

// What a run takes by arithmetic alone: memory and the work of a step (Training::estimate).

struct EstimatedRun {
  const Plan& plan;
  const Algorithm& algorithm;
  const Model& model;
  const Charge* charge = nullptr;
  const Dataset& train;
  const TablePlan* tables = nullptr;  // sharded ones
};

// Of a batch of b_max with the data's averages (sequences: of their mean length), as the simulated
// clock charges it on a device of these rates; null: on any, without what is the device's.
Work step_work(const Model& model, const Charge* charge, const Dataset& train, const Plan& plan,
               const DeviceRates* rates);

// {parameters, memory_bytes, operations_per_step, max_samples}, with sharded tables table_bytes, too.
// Memory: the algorithm's vectors, a batch of scores, the shards; of all workers together.
nlohmann::json estimate_of(const EstimatedRun& run);

}  // namespace hetsgd
