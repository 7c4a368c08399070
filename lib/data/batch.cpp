#include "data/batch.hpp"

namespace hetsgd {

BatchShape Batch::shape() const {
  BatchShape shape;
  shape.samples = static_cast<double>(rows_.size());
  for (const Index row : rows_) {
    shape.nonzeros += static_cast<double>(data_->features(row).size());
    shape.labels += static_cast<double>(data_->labels(row).size());
  }
  return shape;
}

}  // namespace hetsgd
