// The kernel family of embedding tables: rows looked up by category, and their update from the
// gradients of all lookups. Its rules (memory, order, errors, NaN) are those of BasicDevice. X must
// come from the device's stage(). Free of fmt, because CUDA sources include this.
#pragma once

#include <cstddef>

#include "linalg/kernel_family.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

// One table W [categories x (D + extra)] for the F fields of X, which also has K dense columns.
// `extra` is 0 or 1: a row may end with a weight u of its own. A sample's vector has K + F D
// elements: its dense columns, then the embeddings of its fields.
struct TableShape {
  std::size_t embedding = 0;  // D; may be 0
  std::size_t extra = 0;
  std::size_t row() const { return embedding + extra; }
};

template <class Real>
class BasicEmbeddingKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "embedding kernels";

  // Y[rows x (K + F D)] <- the samples' vectors. If rows have a weight u, also z[rows] <- the sum
  // of u over the fields, in their order; else z is not used.
  virtual void gather_rows(const FieldRows<Real>& X, const TableShape& table, const Real* W,
                           Real* Y, Real* z) = 0;
  // For each row that occurs in X, s = the sum of the gradients of its lookups in the order of the
  // samples. The gradients by Y are in D[rows x (K + F D)], those by u in d[rows]. Then, once per
  // row, G <- fma(alpha, s, G). Only rows of G that occur are touched.
  virtual void update_rows(const FieldRows<Real>& X, const TableShape& table, Real alpha,
                           const Real* D, const Real* d, Real* G) = 0;
};

using EmbeddingKernels = BasicEmbeddingKernels<float>;

}  // namespace hetsgd
