// What can be wrong with a run before anything is loaded.
#pragma once

#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Options that do not go with the number of workers, the devices or the algorithm. `devices` as
// split_devices() gives them. Errors: usage.
void check_plan(const TrainOptions& options, const OptionSet& set, const Plan& plan,
                const std::vector<std::string>& devices, const AlgorithmInfo& info,
                const Algorithm& algorithm);

// A model that the machine cannot hold: its initial parameters and one replica. `machine_bytes`:
// core/memory.hpp. Errors: usage, naming what it needs and what there is.
void check_model_fits(const ModelShape& shape, double machine_bytes);

}  // namespace hetsgd
