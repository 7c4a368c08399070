#include "data/batch.hpp"

namespace hetsgd {

BatchShape Batch::shape() const {
  BatchShape shape;
  shape.samples = static_cast<double>(rows_.size());
  const bool sparse = data_ != nullptr && data_->sparse.rows() > 0;
  for (const Index row : rows_) {
    if (sparse) shape.nonzeros += static_cast<double>(data_->features(row).size());
    shape.labels += static_cast<double>(data_->labels(row).size());
  }
  return shape;
}

}  // namespace hetsgd
