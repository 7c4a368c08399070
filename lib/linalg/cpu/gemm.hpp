// C = alpha op(A) op(B) + beta C on the tiles of tile.hpp.
#pragma once

#include <cstddef>

#include "linalg/cores/cores.hpp"
#include "linalg/cores/memory.hpp"

namespace hetsgd::cpu {

// Operands by strides:
//   op(A)(i, k) = A[i * a_row + k * a_k], op(B)(k, j) = B[k * b_k + j * b_column].
template <class Real>
struct GemmArguments {
  std::size_t m, n, k;
  Real alpha;
  const Real* A;
  std::size_t a_row, a_k;
  const Real* B;
  std::size_t b_k, b_column;
  Real beta;
  Real* C;
  std::size_t ldc;
  // An operation on C's elements once their sums are complete, while they are in the caches. At
  // most one of these is set:
  const Real* bias = nullptr;        // [n]: C <- max(C + bias, 0)
  const Real* activation = nullptr;  // [m x n], rows ldc apart: C <- 0 where it is not above 0
};

// The bits do not depend on the number of cores, because every element is one sum in the order of
// k. `pack` holds blocks of A and B for each core.
template <class Real>
void gemm(const Cores& cores, const GemmArguments<Real>& g, Scratch<Real>& pack);

// The same with factors in BF16, whose bits bf16.hpp defines.
void gemm_bf16(const Cores& cores, const GemmArguments<float>& g, Scratch<float>& pack);

// The same on the calling core alone, for kernels that divide their work by samples. `room` is
// aligned and has kBf16Room numbers.
inline constexpr std::size_t kBf16Room = std::size_t{11} << 16;
void gemm_bf16_here(const GemmArguments<float>& g, float* room);

}  // namespace hetsgd::cpu
