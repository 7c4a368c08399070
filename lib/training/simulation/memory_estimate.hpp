// What a run takes by arithmetic alone: memory and the work of a step (Training::estimate).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "algorithm/algorithm.hpp"
#include "data/dataset.hpp"
#include "training/simulation/charge.hpp"

namespace hetsgd {

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
