// Launchers of softmax cross-entropy over a block of columns of the logits.
//
// Logits Z are [rows x columns] of labels first_label, first_label + 1, ...; the bias is not in
// them and is added at each reading. Three kernels:
//   statistics  per row and piece of kSegment columns: the largest logit m, the sum of exp(z - m),
//               the sum of the true labels' logits; reads Z once
//   combine     per row: the pieces together -> loss, m, scale / sum
//   gradient    Z <- exp(z - m) scale / sum - target, and its columns' sums by groups of rows;
//               reads and writes Z once
// so a layer whose logits are in one block is 3 streams over them, the least for a softmax whose
// products are library calls of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "linalg/operands.hpp"

namespace hetsgd::cuda {

// What is known of each row. parts: pieces of kSegment columns over all blocks.
template <class Real>
struct SoftmaxRows {
  std::size_t parts = 0;
  Real* part_max = nullptr;     // [rows x parts]
  double* part_sum = nullptr;   // [rows x parts]
  double* part_true = nullptr;  // [rows x parts]
  Real* max = nullptr;          // [rows]
  Real* factor = nullptr;       // [rows] scale / sum
  double* loss = nullptr;       // [rows]
};

// A block of columns. Its first column must be a multiple of kSegment.
template <class Real>
struct LogitBlock {
  std::size_t first_label = 0;
  std::size_t columns = 0;
  Real* Z = nullptr;           // [rows x columns]
  const Real* bias = nullptr;  // of label 0; null: none
};

// keep_bias: Z <- Z + bias on the way.
template <class Real>
void softmax_statistics(cudaStream_t stream, const SparseRows<Real>& labels,
                        const LogitBlock<Real>& block, bool keep_bias,
                        const SoftmaxRows<Real>& rows);
template <class Real>
void softmax_combine(cudaStream_t stream, const SparseRows<Real>& labels, Real scale,
                     const SoftmaxRows<Real>& rows);
// partials: [groups x stride], of label 0, with groups = row_groups(rows, columns of a whole
// block); null: no sums are wanted.
template <class Real>
void softmax_gradient(cudaStream_t stream, const SparseRows<Real>& labels,
                      const LogitBlock<Real>& block, Real scale, const SoftmaxRows<Real>& rows,
                      std::size_t groups, std::size_t stride, Real* partials);

}  // namespace hetsgd::cuda
