// Launchers around FP32 products that tensor cores compute by three products of halves.
//
// A number x is split into hi = x rounded to FP16 and lo = x - hi, rounded too: 22 significant
// bits. Then X Y = hi(X) hi(Y) + lo(X) hi(Y) + hi(X) lo(Y), with sums in FP32; lo(X) lo(Y) is of
// the size of an FP32 product's own rounding and is left out (Markidis et al., 2018; Ootomo and
// Yokota, 2022). The halves stand side by side, so the three become one product with three times as
// long sums. The smaller ones come first, because tensor cores cut off at the size of the sum:
//   logits           A' = [lo|hi|hi] of A, W' = [hi|lo|hi] of W:    Z = A' W'^T
//   weight gradient  D' = [lo;hi;hi] of D, A" = [hi;lo;hi] of A:    G = D'^T A"
//   input gradient   [lo;hi] of D times hi of W, whose two halves are added, and hi(D) lo(W)
//
// FP16 has a small range, so every matrix is scaled by a power of two that brings its largest
// element into [2^14, 2^15). An element of 2^-16 of the largest begins to lose bits of lo, and the
// error of any element stays below 2^-38 of the largest, where FP32 sums have 2^-24 of theirs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace hetsgd::cuda {

using HalfBits = std::uint16_t;  // an FP16 number

// Numbers that depend on the largest elements: scales, and factors that turn products of scaled
// halves into products of the elements. In device memory, where the products read it.
struct SplitFacts {
  float input_scale, weight_scale;
  float logit_factor;               // Z = factor A' W'^T
  float input_factor;               // dA = factor (...)
  float weight_alpha, weight_beta;  // G = alpha D'^T A" + beta G
  float zero, one;
};

// The rows of a matrix [rows x columns], columns a multiple of 8, at 16 bytes.
struct SplitSource {
  std::size_t rows = 0, columns = 0;
  const float* data = nullptr;
};

// Where the softmax's gradient leaves D as halves: D' [3 rows x stride], scaled. Null: nowhere.
struct SplitGradient {
  HalfBits* halves = nullptr;
  std::size_t rows = 0, stride = 0;
  float scale = 1;
};

// Room for the partial results of measure_split(), in numbers.
inline constexpr std::size_t kSplitParts = 1024;

// Finds the largest elements of A and W. D is scaled by `gradient_scale`; alpha and beta are those
// of G.
void measure_split(cudaStream_t stream, const SplitSource& A, const SplitSource& W,
                   float gradient_scale, float alpha, float beta, float* parts, SplitFacts* facts);
// beside[rows x 3 columns] = A', below[3 rows x columns] = A".
void split_input(cudaStream_t stream, const SplitSource& A, const SplitFacts* facts,
                 HalfBits* beside, HalfBits* below);
// beside[padded x 3 columns] = W' of W's rows, and 0 beyond them.
void split_weight(cudaStream_t stream, const SplitSource& W, std::size_t padded,
                  const SplitFacts* facts, HalfBits* beside);
// Sets the columns of D' from `columns` to the stride to 0: the products of dA go over them.
void clear_gap(cudaStream_t stream, const SplitGradient& gradient, std::size_t columns);
// to[n] = the sum of parts[count x 2 n] over the first of its dimensions and both halves of the
// second, in order.
void add_split_parts(cudaStream_t stream, std::size_t count, std::size_t n, const float* parts,
                     float* to);

}  // namespace hetsgd::cuda
