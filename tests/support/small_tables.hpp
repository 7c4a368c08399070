// Click data with few categories and the plans of their tables, for the stages of sharded tables.
#pragma once

#include <utility>

#include "core/random.hpp"
#include "support/dataset.hpp"
#include "table/stages.hpp"

namespace hetsgd::test {

inline constexpr std::size_t kFields = 3, kEmbedding = 16, kExtra = 1, kWidth = kEmbedding + kExtra;
inline constexpr std::size_t kDense = 2, kSamples = 40;
inline const std::vector<Index> kTableFirst = {0, 5, 25, 65};
inline const std::vector<double> kTableLoad = {5, 20, 40};

// Few categories, so that samples share them; the ranks' batches have unequal sizes.
inline DatasetPtr clicks() {
  DatasetBuilder data = dataset_of(Task::binary, 1);
  data.dense.columns = kDense;
  data.fields.first = kTableFirst;
  RandomStream random(7, Purpose::test);
  for (std::size_t r = 0; r < 8 * kSamples; ++r) {
    for (std::size_t j = 0; j < kDense; ++j) {
      data.dense.value.push_back(static_cast<float>(random.uniform(-1, 1)));
    }
    for (std::size_t f = 0; f < kFields; ++f) {
      const Index rows = kTableFirst[f + 1] - kTableFirst[f];
      data.fields.category.push_back(kTableFirst[f] + static_cast<Index>(random.below(rows)));
    }
    end_row(data);
  }
  return std::move(data).share();
}

inline TablePlan plan_of(const std::string& sharding, int ranks, bool dedup, OptimizerKind kind) {
  OptimizerOptions optimizer;
  optimizer.kind = kind;
  return {.shape = {kEmbedding, kExtra},
          .dense_columns = kDense,
          .placement = Placement(kTableFirst, kWidth, ranks, parse_sharding(sharding), kTableLoad),
          .initial = {{kTableFirst, {}}, 3, 0.1, kEmbedding},
          .optimizer = optimizer,
          .dedup = dedup};
}

}  // namespace hetsgd::test
