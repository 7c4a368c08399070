// Data sets of a given shape for benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/random.hpp"
#include "data/dataset.hpp"

namespace hetsgd {

struct RowShape {
  Index features, labels;
  std::size_t nonzeros, labels_per_row, rows;
};

// Rows with log-uniform (Zipf-like, exponent 1) features and uniform labels.
inline DatasetPtr synthetic(const RowShape& shape) {
  DatasetBuilder data;
  data.name = "synthetic";
  data.feature_count = shape.features;
  data.label_count = shape.labels;
  RandomStream random(1, Purpose::test);
  const auto draw = [](std::size_t count, auto&& next, std::vector<Index>& to) {
    std::vector<Index> chosen;
    while (chosen.size() < count) {
      const Index i = next();
      if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) chosen.push_back(i);
    }
    std::sort(chosen.begin(), chosen.end());
    to.insert(to.end(), chosen.begin(), chosen.end());
  };
  const double log_features = std::log(static_cast<double>(shape.features));
  for (std::size_t r = 0; r < shape.rows; ++r) {
    draw(
        shape.nonzeros,
        [&] {
          const auto i = static_cast<Index>(std::exp(random.uniform() * log_features)) - 1;
          return std::min(i, shape.features - 1);
        },
        data.sparse.index);
    draw(
        shape.labels_per_row, [&] { return static_cast<Index>(random.below(shape.labels)); },
        data.targets.index);
    data.sparse.begin.push_back(data.sparse.index.size());
    data.targets.begin.push_back(data.targets.index.size());
  }
  for (std::size_t i = 0; i < data.sparse.index.size(); ++i) {
    data.sparse.value.push_back(static_cast<float>(random.uniform(0.1, 1.0)));
  }
  return std::move(data).share();
}

}  // namespace hetsgd
