// A batch: a view of some rows of a data set. Copies nothing but the row numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"

namespace hetsgd {

// What a batch costs depends on these alone (see Model::gradient_work).
struct BatchShape {
  double samples = 0;
  double nonzeros = 0;  // sparse features
  double labels = 0;    // true labels
  double lookups = 0;   // categories: one per sample and field
};

class Batch {
 public:
  Batch() = default;
  Batch(const Dataset& data, std::vector<Index> rows) : data_(&data), rows_(std::move(rows)) {}

  const Dataset& data() const { return *data_; }
  std::span<const Index> rows() const { return rows_; }
  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  BatchShape shape() const;

  // For re-use without allocation: clears the rows, keeps the capacity.
  std::vector<Index>& reset(const Dataset& data) {
    data_ = &data;
    rows_.clear();
    return rows_;
  }

 private:
  const Dataset* data_ = nullptr;
  std::vector<Index> rows_;
};

}  // namespace hetsgd
