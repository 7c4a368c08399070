// What a run learns from and is measured on. Several runs may share it.
#pragma once

#include <string>
#include <vector>

#include "data/load.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

struct RunData {
  LoadedData train;
  LoadedData test;  // --test, the rows that --validation holds out, or the training data again
  std::vector<std::string> warnings;
  double load_s = 0;  // host time
};

// Errors: data, usage.
RunData load_run_data(const TrainOptions& options);

}  // namespace hetsgd
