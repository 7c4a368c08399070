// The plan of a run (algorithm/plan.hpp) as its options say it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// --workers; by default as many as there are ranks that serve no tables, or devices.
int workers_of(const TrainOptions& options, const std::vector<std::string>& devices);

// What is known of the plan before the data are loaded.
Plan plan_before_data(const TrainOptions& options, const AlgorithmInfo& info, int workers);

// Adds to `plan` what follows from the number of training rows: the budget of samples.
void plan_data(const TrainOptions& options, std::uint64_t rows, Plan& plan);

}  // namespace hetsgd
