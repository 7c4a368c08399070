// The kernel family of attention over rows of tokens. Its rules (memory, order, errors, NaN) are
// those of BasicDevice. Free of fmt, because CUDA sources include this.
//
//   s_ij = q_i.k_j / sqrt(D) for keys j of the same row, and j <= i if causal
//   p_ij = exp(s_ij - l_i),  l_i = log sum_j exp s_ij,  o_i = sum_j z_ij p_ij v_j
//
// z_ij is 1, or with dropout 0 or 1 / (1 - p). No map of scores is ever in memory. Both passes go
// through blocks of queries and keys (Dao and others 2022), and the backward pass computes p again
// from q, k and l. The bits depend neither on the number of a CPU's cores nor on other rows. Throws
// Error(device) for heads of more than 256 elements on a GPU.
#pragma once

#include <cstddef>

#include "linalg/image_kernels.hpp"
#include "linalg/kernel_family.hpp"
#include "linalg/operands.hpp"

namespace hetsgd {

struct AttentionShape {
  std::size_t heads = 1;
  std::size_t width = 1;  // of all heads together
  bool causal = false;
  // Element ((b heads + h) block + i) block + j of the mask `drop` drops p_ij of head h in row b.
  // block is at least the longest row.
  DropoutKey drop = {0, 0, 0, 0};
  std::size_t block = 1;

  std::size_t depth() const { return width / heads; }  // D
};

template <class Real>
class BasicAttentionKernels : public KernelFamily {
 public:
  static constexpr const char* kName = "attention kernels";

  // X [tokens x 3 width] holds queries, keys and values of a token one after the other, each head
  // by head. Y [tokens x width] <- o, 0 for padding. sums [heads x tokens] <- l, not written for
  // padding.
  virtual void attention(const AttentionShape& shape, const TokenSpans& rows, const Real* X,
                         Real* sums, Real* Y) = 0;
  // dX = beta dX + the gradient by X; beta = 0 never reads dX.
  virtual void attention_gradient(const AttentionShape& shape, const TokenSpans& rows,
                                  const Real* X, const Real* sums, const Real* Y, const Real* dY,
                                  Real beta, Real* dX) = 0;
};

}  // namespace hetsgd
