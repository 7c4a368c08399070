#include "data/batch.hpp"

namespace hetsgd {

BatchShape Batch::shape() const {
  BatchShape shape;
  if (rows_.empty()) return shape;
  shape.samples = static_cast<double>(rows_.size());
  shape.lookups = shape.samples * static_cast<double>(data_->fields.count());
  const bool sparse = data_->sparse.rows() > 0;
  for (const Index row : rows_) {
    if (sparse) shape.nonzeros += static_cast<double>(data_->features(row).size());
    shape.labels += static_cast<double>(data_->labels(row).size());
  }
  return shape;
}

}  // namespace hetsgd
