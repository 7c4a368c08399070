// A batch: a view of some rows of a data set. Copies nothing but the row numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"

namespace hetsgd {

// The size of a batch. The work of a batch depends on these numbers alone (see
// Model::gradient_work).
struct BatchShape {
  double samples = 0;
  double nonzeros = 0;  // sparse features
  double labels = 0;    // true labels
  double lookups = 0;   // categories: one per sample and field
  double steps = 0;     // sequences and tokens: the length of the longest row
  double frames = 0;    // sequences and tokens: the lengths of all rows
};

// How training rows change each time they are drawn: images (data/images.hpp) and rows of tokens
// (data/sequences.hpp).
enum class Augmentation {
  none,
  crop,  // shifted by up to kCropPadding pixels; pixels from outside have the mean
  flip,  // mirrored left to right with probability 1/2
  crop_flip,
  shift,  // a row of tokens begins up to TokenRows::room places later
};

// The augmentation of one batch. The draws for its i-th row are those of (seed, first + i), its
// place in a sequence of samples. So a row changes from epoch to epoch and is the same on all
// clusters.
struct AugmentedBatch {
  Augmentation change = Augmentation::none;
  std::uint64_t seed = 0;
  std::uint64_t first = 0;
};

// The rows of one step. The data set must outlive the batch.
class Batch {
 public:
  Batch() = default;
  Batch(const Dataset& data, std::vector<Index> rows) : data_(&data), rows_(std::move(rows)) {}

  const Dataset& data() const { return *data_; }
  std::span<const Index> rows() const { return rows_; }
  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  BatchShape shape() const;
  // The augmentation; nothing changes unless the batch is for training.
  const AugmentedBatch& augmentation() const { return augmentation_; }

  // Clears the rows and keeps the capacity, so that a batch can be reused without allocation.
  std::vector<Index>& reset(const Dataset& data, const AugmentedBatch& augmentation = {}) {
    data_ = &data;
    augmentation_ = augmentation;
    rows_.clear();
    return rows_;
  }

 private:
  const Dataset* data_ = nullptr;
  std::vector<Index> rows_;
  AugmentedBatch augmentation_;
};

inline BatchShape Batch::shape() const {
  BatchShape shape;
  if (rows_.empty()) return shape;
  shape.samples = static_cast<double>(rows_.size());
  shape.lookups = shape.samples * static_cast<double>(data_->fields.count());
  const bool sparse = data_->sparse.rows() > 0, lengths = data_->has_lengths();
  for (const Index row : rows_) {
    if (sparse) shape.nonzeros += static_cast<double>(data_->features(row).size());
    shape.labels += static_cast<double>(data_->labels(row).size());
    if (!lengths) continue;
    const auto length = static_cast<double>(data_->length(row));
    shape.steps = std::max(shape.steps, length);
    shape.frames += length;
  }
  return shape;
}

// The row numbers of an earlier batch, to tell whether another batch has the same rows.
class BatchRows {
 public:
  void keep(const Batch& batch) {
    data_ = &batch.data();
    rows_.assign(batch.rows().begin(), batch.rows().end());
  }
  void forget() { data_ = nullptr; }
  bool are_of(const Batch& batch) const {
    return data_ == &batch.data() && std::ranges::equal(rows_, batch.rows());
  }
  std::span<const Index> rows() const { return rows_; }

 private:
  const Dataset* data_ = nullptr;
  std::vector<Index> rows_;
};

}  // namespace hetsgd
