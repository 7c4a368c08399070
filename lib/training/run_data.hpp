// What a run learns from and is measured on. Several runs may share it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/load.hpp"
#include "data/sampler.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

struct RunData {
  LoadedData train;
  LoadedData test;  // --test, the rows that --validation holds out, or the training data again
  std::vector<std::string> warnings;
  double load_s = 0;  // host time
};

// What one process needs of the data, where each worker is a process of its own.
struct RankShare {
  int worker = 0;             // learns from this worker's shard, and keeps no other rows of it
  Sampler::Options sampling;  // Partition::shared: from all rows
  bool measures = false;      // if not, one test row stands for all
};

Sampler::Options sampling_of(const TrainOptions& options, int workers);

// The share of this process if it is one of several, each of which runs one of `workers` workers.
std::optional<RankShare> share_of(const TrainOptions& options, int workers);

// `share`: unset: everything. Errors: data, usage.
RunData load_run_data(const TrainOptions& options, const std::optional<RankShare>& share = {});

}  // namespace hetsgd
