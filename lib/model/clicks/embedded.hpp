// The embeddings of one batch, as a model needs them. The model looks them up itself if the table
// is part of its parameters; otherwise tables that are sharded over ranks do (table/stages.hpp).
#pragma once

#include <cstddef>

#include "linalg/device.hpp"

namespace hetsgd {

// n samples, d = K + F D (model/clicks/ctr_model.hpp). The same type holds the gradient of the mean
// loss by these elements. Then u is the gradient by the logit, which all categories' weights share.
template <class Real>
struct BasicEmbedded {
  BasicBuffer<Real> x;  // [n x d] x0: dense columns, then the embeddings of the fields
  // [n] the sum over the fields, in their order, of the categories' own weights. It is unused if
  // the table has no such weights.
  BasicBuffer<Real> u;

  void reset(BasicDevice<Real>& device, std::size_t n, std::size_t d) {
    x.reset(device, n * d);
    u.reset(device, n);
  }
};
using Embedded = BasicEmbedded<float>;

}  // namespace hetsgd
