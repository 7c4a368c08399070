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

}  // namespace hetsgd
