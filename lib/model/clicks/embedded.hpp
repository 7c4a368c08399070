// What a model with an embedding table needs of the table for one batch, whoever has looked it up:
// the model itself, where the table is part of its parameters, or tables that are sharded over
// ranks (table/tables.hpp).
#pragma once

#include <cstddef>

#include "linalg/device.hpp"

namespace hetsgd {

// n samples, d = K + F D (model/clicks/ctr_model.hpp). Also the gradient of the mean loss by these
// numbers: then u is that by the logit, which every category's own weight has in common.
template <class Real>
struct BasicEmbedded {
  BasicBuffer<Real> x;  // [n x d] x0: dense columns, then the embeddings of the fields
  // [n] the sum over the fields, in their order, of the categories' own weights; of a table without
  // such weights nobody reads it.
  BasicBuffer<Real> u;

  void reset(BasicDevice<Real>& device, std::size_t n, std::size_t d) {
    x.reset(device, n * d);
    u.reset(device, n);
  }
};
using Embedded = BasicEmbedded<float>;

}  // namespace hetsgd
