// Launchers of softmax cross-entropy over a block of columns of the logits, and of the sigmoid's
// over one logit per row.
// Logits Z are [rows x columns] of labels first_label, first_label + 1, ... They do not contain the
// bias, which is added at each reading. There are four kernels:
//   true logits  per row: the sum of those of its true labels; reads these and nothing else
//   statistics   per row and piece of kPart columns: the largest logit m, the sum of exp(z - m),
//                with smoothing that of z; reads Z once
//   combine      per row: the pieces together -> loss, m, scale / sum
//   gradient     Z <- exp(z - m) scale / sum - target, and its columns' sums by groups of rows;
//                reads and writes Z once
// A layer is 3 streams over its logits, the least for a softmax whose products are library calls of
// their own. Rows that begin at multiples of 16 bytes are read and written 16 bytes at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "linalg/cuda/split.hpp"
#include "linalg/operands.hpp"

namespace hetsgd::cuda {

// Softmax values of each row. parts: pieces of kPart columns over all blocks.
template <class Real>
struct SoftmaxRows {
  std::size_t parts = 0;
  Real* part_max = nullptr;      // [rows x parts]
  Real* part_sum = nullptr;      // [rows x parts]
  Real* part_total = nullptr;    // [rows x parts]; null: no smoothing
  double* true_logit = nullptr;  // [rows]
  Real* max = nullptr;           // [rows]
  Real* factor = nullptr;        // [rows] scale / sum
  double* loss = nullptr;        // [rows]
  Real smoothing = 0;            // of the targets, among so many labels
  std::size_t labels = 0;
};

// A block of columns. Its first label must be a multiple of kPart.
template <class Real>
struct LogitBlock {
  std::size_t first_label = 0;
  std::size_t columns = 0;
  std::size_t stride = 0;      // from row to row
  Real* Z = nullptr;           // [rows x columns]; the gaps between rows may be overwritten
  const Real* bias = nullptr;  // starts with label 0; null: none
};

// The first two kernels. Blocks must come in the order of their labels. keep_bias: also Z <- Z +
// bias.
template <class Real>
void softmax_statistics(cudaStream_t stream, const SparseRows<Real>& labels,
                        const LogitBlock<Real>& block, bool keep_bias,
                        const SoftmaxRows<Real>& rows);
template <class Real>
void softmax_combine(cudaStream_t stream, const SparseRows<Real>& labels, Real scale,
                     const SoftmaxRows<Real>& rows);
// partials: [groups x stride], starting with label 0, with groups = gradient_groups(rows, columns
// of a whole block); null: no sums are wanted. D takes the place of Z, or goes to `halves` if there
// are such, which takes floats whose rows begin at multiples of 16 bytes.
template <class Real>
void softmax_gradient(cudaStream_t stream, const SparseRows<Real>& labels,
                      const LogitBlock<Real>& block, Real scale, const SoftmaxRows<Real>& rows,
                      std::size_t groups, std::size_t stride, Real* partials,
                      const SplitGradient& halves = {});

// Rows of n numbers: row r of `to` <- row number[r] of `from`, or row number[r] of `to` <- row r of
// `from`. `number` [count] is device memory.
enum class CopyRows { gather, scatter };
template <class Real>
void copy_rows(cudaStream_t stream, CopyRows which, std::size_t count, const std::uint32_t* number,
               std::size_t n, const Real* from, Real* to);

// Z [rows x n]. gradient: Z <- scale (sigmoid(Z + bias) - T); else Z + bias. losses: [rows], the
// loss of each row. bias may be null.
template <class Real>
void sigmoid_rows(cudaStream_t stream, const SparseRows<Real>& labels, std::size_t n,
                  const Real* bias, bool gradient, Real scale, Real* Z, double* losses);

}  // namespace hetsgd::cuda
