// The micro-kernel of every dense product: a tile of rows x (vectors * lanes) sums held in
// registers.
//
// Why not a BLAS: OpenBLAS chooses its kernels by CPU model, and uses generic ones for a model that
// it does not know. Measured on such a Xeon (FMA peak 220 GFLOP/s per core), for the products of a
// 128 x 983 and a 128 x 67,009 layer, in GFLOP/s: OpenBLAS 0.3.21 35, with its AVX-512 kernels
// forced by an environment variable 110 to 150, oneDNN 100 to 185, these tiles 165 to 185. One tile
// routine with an unpacked left operand serves all three products of a layer. Bias, softmax and
// update happen while the data are in cache. tests/bench/kernels_bench.cpp repeats the comparison.
#pragma once

#include <type_traits>

#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

// The tiles by size of the register file. An element is the same sum in every tile.
//   AVX-512  8 x 2 sums, 2 operands and a broadcast: 19 of 32 registers
//   AVX2     a vector is two registers: 4 x 1 or 6 x 1 sums take 11 or 15 of 16
// Plain products have more rows. Measured on an EPYC with AVX2: 80 GFLOP/s with six, 50 with four.
inline constexpr int kTileRows = kRegisters == 1 ? 8 : 4;
inline constexpr int kProductRows = kRegisters == 1 ? 8 : 6;
inline constexpr int kTileVectors = kRegisters == 1 ? 2 : 1;

// Columns of a tile of products.
template <class Real>
inline constexpr std::size_t kPanel = kTileVectors* kLanes<Real>;

// Sums of a tile: sum[i][j] += sum over k of a(i, k) * b(k, j-th vector).
//   a(i, k) = a[i * row_stride + k * k_stride], read as single numbers; b(k) = b + k * ldb, read as
//   vectors.
template <class Real, int rows, int vectors>
HETSGD_INLINE void accumulate(std::size_t depth, const Real* a, std::size_t row_stride,
                              std::size_t k_stride, const Real* b, std::size_t ldb,
                              Vec<Real> (&sum)[rows][vectors]) {
  for (std::size_t k = 0; k < depth; ++k) {
    Vec<Real> bk[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) bk[j] = load(b + static_cast<std::size_t>(j) * kLanes<Real>);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Vec<Real> ai = broadcast(a[static_cast<std::size_t>(i) * row_stride]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[i][j] = fused(ai, bk[j], sum[i][j]);
    }
    a += k_stride;
    b += ldb;
  }
}

// sum <- C tile, for a whole tile.
template <class Real, int rows, int vectors>
HETSGD_INLINE void load_tile(const Real* C, std::size_t ldc, Vec<Real> (&sum)[rows][vectors]) {
  for (int i = 0; i < rows; ++i, C += ldc) {
    for (int j = 0; j < vectors; ++j) {
      sum[i][j] = load(C + static_cast<std::size_t>(j) * kLanes<Real>);
    }
  }
}

// C tile <- sum, for a whole tile.
template <class Real, int rows, int vectors>
HETSGD_INLINE void store_tile(const Vec<Real> (&sum)[rows][vectors], Real* C, std::size_t ldc) {
  for (int i = 0; i < rows; ++i, C += ldc) {
    for (int j = 0; j < vectors; ++j) {
      store(C + static_cast<std::size_t>(j) * kLanes<Real>, sum[i][j]);
    }
  }
}

// C tile <- alpha * sum + beta * C for `columns` <= vectors * lanes columns. beta = 0 never reads
// C. The first product is rounded and the second is not, whatever the shape of the tile.
template <class Real, int rows, int vectors>
HETSGD_INLINE void write_tile(const Vec<Real> (&sum)[rows][vectors], Real alpha, Real beta, Real* C,
                              std::size_t ldc, std::size_t columns) {
  constexpr std::size_t kWidth = kLanes<Real>;
  for (int i = 0; i < rows; ++i, C += ldc) {
    for (int j = 0; j < vectors; ++j) {
      Real* c = C + static_cast<std::size_t>(j) * kWidth;
      const std::size_t begin = static_cast<std::size_t>(j) * kWidth;
      if (begin >= columns) break;
      const std::size_t count = columns - begin;
      const Vec<Real> product = sum[i][j] * alpha;
      if (count >= kWidth) {
        store(c, beta == Real(0) ? product : fused(load(c), beta, product));
      } else if (beta == Real(0)) {
        store_partial(c, count, product);
      } else {
        store_partial(c, count, fused(load_partial(c, count, Real(0)), beta, product));
      }
    }
  }
}

// Calls f(first row, integral_constant<rows>) for tiles that cover `rows` rows: whole tiles of
// `most` rows, then tiles of 4, 2 and 1 rows.
template <int most = kTileRows, class F>
HETSGD_INLINE void for_row_tiles(std::size_t rows, F&& f) {
  std::size_t i = 0;
  for (; i + most <= rows; i += most) f(i, std::integral_constant<int, most>{});
  if constexpr (most > 4) {
    for (; i + 4 <= rows; i += 4) f(i, std::integral_constant<int, 4>{});
  }
  for (; i + 2 <= rows; i += 2) f(i, std::integral_constant<int, 2>{});
  if (i < rows) f(i, std::integral_constant<int, 1>{});
}

}  // namespace hetsgd::cpu
