// Rows of embedding tables come from memory in random order, which no hardware prefetcher foresees.
#pragma once

#include <algorithm>
#include <cstddef>

#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

constexpr std::size_t kTableLine = 64;  // bytes

// Asks for a row that will be needed soon.
template <class Real>
void prefetch_table_row(const Real* row, std::size_t width) {
  const char* const begin = reinterpret_cast<const char*>(row);
  const char* const end = begin + width * sizeof(Real);
  for (const char* p = begin; p < end; p += kTableLine) __builtin_prefetch(p);
  __builtin_prefetch(end - 1);
}

// How many rows before it is needed a row is best asked for: some 64 lines, as many as a core can
// wait for at once and a bit more.
template <class Real>
std::size_t table_rows_ahead(std::size_t width) {
  return std::clamp<std::size_t>(64 * kTableLine / (width * sizeof(Real) + 1), 4, 64);
}

// to <- from and to <- to + from, which lie apart. Rows are short: compilers' own loops check for
// overlaps and prepare for long ones, which takes longer than the numbers. Half a line at a time,
// as rows need not begin with one, and stores across two lines are slow.
template <class Real>
HETSGD_INLINE void copy_numbers(std::size_t n, const Real* from, Real* to) {
  constexpr std::size_t kHalf = kTableLine / 2 / sizeof(Real), kFew = 4;
  std::size_t j = 0;
  for (; j + kHalf <= n; j += kHalf) __builtin_memcpy(to + j, from + j, kHalf * sizeof(Real));
  for (std::size_t i = n % kHalf / kFew; i > 0; --i, j += kFew) {
    __builtin_memcpy(to + j, from + j, kFew * sizeof(Real));
  }
  for (std::size_t i = n % kFew; i > 0; --i, ++j) to[j] = from[j];
}
template <class Real>
HETSGD_INLINE void add_numbers(std::size_t n, const Real* from, Real* to) {
#pragma GCC ivdep
  for (std::size_t j = 0; j < n; ++j) to[j] += from[j];
}

}  // namespace hetsgd::cpu
