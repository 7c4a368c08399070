// Data sets that tests write by hand.
#pragma once

#include <vector>

#include "data/dataset.hpp"

namespace hetsgd::test {

inline DatasetBuilder dataset_of(Task task, Index labels, Index features = 0) {
  DatasetBuilder data;
  data.task = task;
  data.label_count = labels;
  data.feature_count = features;
  return data;
}

// A feature of the row that end_row() ends.
inline void add(DatasetBuilder& data, Index feature, double value) {
  data.sparse.index.push_back(feature);
  data.sparse.value.push_back(static_cast<float>(value));
}

inline void end_row(DatasetBuilder& data, const std::vector<Index>& labels = {}) {
  data.targets.index.insert(data.targets.index.end(), labels.begin(), labels.end());
  data.targets.begin.push_back(data.targets.index.size());
  if (data.feature_count > 0) data.sparse.begin.push_back(data.sparse.index.size());
}

}  // namespace hetsgd::test
