// Sparse rows x dense matrix, forward and transposed.
#pragma once

#include <cstddef>

#include "linalg/cpu/cores.hpp"
#include "linalg/device.hpp"

namespace hetsgd::cpu {

// Y = X W + bias (null: none), with ReLU if asked. Split by rows.
template <class Real>
void sparse_forward(const Cores& cores, const SparseRows<Real>& X, std::size_t n, const Real* W,
                    const Real* bias, bool relu, Real* Y);

// W += alpha X^T D. Split by columns, so that no two cores meet in a row of W and every sum has one
// order.
template <class Real>
void sparse_update(const Cores& cores, const SparseRows<Real>& X, std::size_t n, Real alpha,
                   const Real* D, Real* W);

}  // namespace hetsgd::cpu
