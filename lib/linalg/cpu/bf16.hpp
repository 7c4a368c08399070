// Products of factors in BF16, defined once so that every processor gives the same bits.
//
// An element of such a product is, as Intel's AMX computes it (TDPBF16PS), for blocks of 32 factors
// in the order of k, the last one filled up with zeros:
//
//   S = +0; for each block:
//     even = +0;  for k = 0, 2, .., 30:  even = fma(a[k], b[k], even)
//     odd  = +0;  for k = 1, 3, .., 31:  odd  = fma(a[k], b[k], odd)
//     S = S + (even + odd)
//
// in FP32, rounded to nearest even, where subnormal operands are zero and subnormal results become
// zero. S runs over all of k, whatever the caches hold. Then subnormal numbers are ordinary again:
// C = fma(beta, C, alpha S), and bias and activation.
//
// Here a factor is a float that BF16 holds exactly, and sums run in the lanes of vectors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

inline constexpr std::size_t kBf16Block = 32;  // factors of a block

// The BF16 number nearest to x, the even one of two. A subnormal x gives the zero of its sign, and
// every NaN 0x7FC0.
HETSGD_INLINE Vec<float> bf16(const Vec<float>& x) {
  const auto bits = bits_as<std::uint32_t>(x);
  const auto magnitude = bits & 0x7FFFFFFFu;
  Vector<std::uint32_t> odd;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) odd.part[i] = bits.part[i] >> 16 & 1u;
  const auto rounded = (bits + (odd + 0x7FFFu)) & 0xFFFF0000u;
  const auto flushed = select(magnitude < 0x00800000u, bits & 0x80000000u, rounded);
  return bits_as<float>(
      select(magnitude > 0x7F800000u, broadcast<std::uint32_t>(0x7FC00000u), flushed));
}
inline float bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return std::bit_cast<float>(0x7FC00000u);
  if (magnitude < 0x00800000u) return std::bit_cast<float>(bits & 0x80000000u);
  return std::bit_cast<float>((bits + (bits >> 16 & 1u) + 0x7FFFu) & 0xFFFF0000u);
}

// to[i] = bf16(from[i]) for i < n; may be the same memory.
inline void round_to_bf16(std::size_t n, const float* from, float* to) {
  std::size_t i = 0;
  for (; i + kLanes<float> <= n; i += kLanes<float>) store(to + i, bf16(load(from + i)));
  for (; i < n; ++i) to[i] = bf16(from[i]);
}

// While it lives, this thread's vectors flush subnormal results to zero and take subnormal operands
// as zero. A compiler may move arithmetic across its ends, so the arithmetic belongs into a
// function of its own that is not inlined.
class FlushToZero {
 public:
#if defined(__x86_64__)
  FlushToZero() : saved_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(saved_ | 0x8040u); }
  ~FlushToZero() { __builtin_ia32_ldmxcsr(saved_); }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  FlushToZero() : saved_(__builtin_aarch64_get_fpcr()) {
    __builtin_aarch64_set_fpcr(saved_ | 1u << 24);
  }
  ~FlushToZero() { __builtin_aarch64_set_fpcr(saved_); }

 private:
  unsigned saved_;
#else
  FlushToZero() {}

 private:
#endif
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;
};

// Rows of a tile. Even sums, odd sums and S are in registers.
//   AVX-512  4 x 2 vectors of each: 24 of 32 registers, and the operands
//   AVX2     a vector is two registers: 3 x 1 of even and odd sums take 12 of 16; S is in memory
inline constexpr int kBf16Rows = kRegisters == 1 ? 4 : 3;

// The sums of a block that is under way.
template <int rows, int vectors>
struct Bf16Sums {
  Vec<float> even[rows][vectors] = {}, odd[rows][vectors] = {};

  // The next `depth` factors, an even number but at a block's end; operands as in accumulate().
  HETSGD_INLINE void add(std::size_t depth, const float* a, std::size_t row_stride,
                         std::size_t k_stride, const float* b, std::size_t ldb) {
    std::size_t k = 0;
    for (; k + 2 <= depth; k += 2, a += 2 * k_stride, b += 2 * ldb) {
      accumulate<float, rows, vectors>(1, a, row_stride, k_stride, b, ldb, even);
      accumulate<float, rows, vectors>(1, a + k_stride, row_stride, k_stride, b + ldb, ldb, odd);
    }
    if (k < depth) accumulate<float, rows, vectors>(1, a, row_stride, k_stride, b, ldb, even);
  }

  // Ends a block of `depth` factors. The zeros that fill it up can only turn -0 into +0.
  HETSGD_INLINE void end(std::size_t depth, Vec<float> (&sum)[rows][vectors]) const {
    const Vec<float> zero{};
    for (int i = 0; i < rows; ++i) {
      for (int v = 0; v < vectors; ++v) {
        const Vec<float> e = depth + 2 <= kBf16Block ? even[i][v] + zero : even[i][v];
        const Vec<float> o = depth < kBf16Block ? odd[i][v] + zero : odd[i][v];
        sum[i][v] += e + o;
      }
    }
  }
};

// S += the blocks of `depth` factors; the last one may be short. Operands as in accumulate().
template <int rows, int vectors>
HETSGD_INLINE void accumulate_bf16(std::size_t depth, const float* a, std::size_t row_stride,
                                   std::size_t k_stride, const float* b, std::size_t ldb,
                                   Vec<float> (&sum)[rows][vectors]) {
  for (; depth >= kBf16Block; depth -= kBf16Block) {
    Bf16Sums<rows, vectors> block;
    block.add(kBf16Block, a, row_stride, k_stride, b, ldb);
    block.end(kBf16Block, sum);
    a += kBf16Block * k_stride;
    b += kBf16Block * ldb;
  }
  if (depth > 0) {
    Bf16Sums<rows, vectors> block;
    block.add(depth, a, row_stride, k_stride, b, ldb);
    block.end(depth, sum);
  }
}

}  // namespace hetsgd::cpu
