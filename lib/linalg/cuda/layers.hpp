// Launchers of the dense layers' kernels. The contracts are those of BasicDevice; labels are
// compact rows, as BatchStage makes them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "linalg/operands.hpp"

namespace hetsgd::cuda {

template <class Real>
void bias_relu(cudaStream_t stream, std::size_t rows, std::size_t n, const Real* bias, Real* Y);
template <class Real>
void relu_backward(cudaStream_t stream, std::size_t rows, std::size_t n, const Real* Y, Real* D);

// b <- beta b + alpha sum over rows of D. `partials` has room for row_groups(rows, n) * n numbers.
// Each thread adds up a group of rows of its column, then one thread the groups: a fixed order.
// beta = 0 never reads b.
template <class Real>
void column_sums(cudaStream_t stream, std::size_t rows, std::size_t n, Real alpha, const Real* D,
                 Real beta, Real* b, Real* partials);
// The second half alone: partials is [groups x n].
template <class Real>
void add_groups(cudaStream_t stream, std::size_t groups, std::size_t n, Real alpha,
                const Real* partials, Real beta, Real* b);

// Z: one logit per row. gradient: Z <- scale (sigmoid(Z + bias) - t); else Z + bias. losses:
// [rows], each row's. bias may be null.
template <class Real>
void sigmoid_rows(cudaStream_t stream, const SparseRows<Real>& labels, const Real* bias,
                  bool gradient, Real scale, Real* Z, double* losses);

}  // namespace hetsgd::cuda
