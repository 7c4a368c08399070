#include "data/batch.hpp"

#include <algorithm>

namespace hetsgd {

BatchShape Batch::shape() const {
  BatchShape shape;
  if (rows_.empty()) return shape;
  shape.samples = static_cast<double>(rows_.size());
  shape.lookups = shape.samples * static_cast<double>(data_->fields.count());
  const bool sparse = data_->sparse.rows() > 0, sequences = data_->sequences.numbers > 0;
  for (const Index row : rows_) {
    if (sparse) shape.nonzeros += static_cast<double>(data_->features(row).size());
    shape.labels += static_cast<double>(data_->labels(row).size());
    if (!sequences) continue;
    const auto length = static_cast<double>(data_->length(row));
    shape.steps = std::max(shape.steps, length);
    shape.frames += length;
  }
  return shape;
}

}  // namespace hetsgd
