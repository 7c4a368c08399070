// The kernel family of sparse inputs: CSR rows x dense matrix, forward and transposed.
// Its rules (memory, order, errors, NaN) are those of BasicDevice. Free of fmt: CUDA sources
// include this.
#pragma once

#include <cstddef>

#include "linalg/kernel_family.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

template <class Real>
class BasicSparseKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "sparse kernels";

  // Y[rows x n] = X W + bias, W is [columns x n]; bias [n] may be null. relu: Y is max(., 0) of
  // that. X must come from the device's stage().
  virtual void forward(const SparseRows<Real>& X, std::size_t n, const Real* W, const Real* bias,
                       bool relu, Real* Y) = 0;
  // W += alpha X^T D, D is [rows x n]. Only rows of W that occur in X are touched.
  virtual void update(const SparseRows<Real>& X, std::size_t n, Real alpha, const Real* D,
                      Real* W) = 0;
};

using SparseKernels = BasicSparseKernels<float>;

}  // namespace hetsgd
