// Access to rows of embedding tables. They come from memory in random order, which no hardware
// prefetcher predicts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

constexpr std::size_t kTableLine = 64;  // bytes

// Prefetches a row that will be needed soon.
template <class Real>
void prefetch_table_row(const Real* row, std::size_t width) {
  const char* const begin = reinterpret_cast<const char*>(row);
  const char* const end = begin + width * sizeof(Real);
  for (const char* p = begin; p < end; p += kTableLine) __builtin_prefetch(p);
  __builtin_prefetch(end - 1);
}

// How many rows ahead to prefetch: some 64 lines, a bit more than the number of lines that a core
// can wait for at once.
template <class Real>
std::size_t table_rows_ahead(std::size_t width) {
  return std::clamp<std::size_t>(64 * kTableLine / (width * sizeof(Real) + 1), 4, 64);
}

// to <- from, which must not overlap. Rows are short. Compilers' own loops check for overlaps and
// prepare for long arrays, which takes longer than the copy. It copies half a line at a time,
// because rows need not begin with a line, and stores across two lines are slow.
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
// to <- f(from, to), half a line at a time. Local arrays let the compiler use registers, since no
// other data can be a part of them.
template <class Real, class F>
HETSGD_INLINE void change_numbers(std::size_t n, const Real* from, Real* to, const F& f) {
  constexpr std::size_t kHalf = kTableLine / 2 / sizeof(Real);
  std::size_t j = 0;
  for (; j + kHalf <= n; j += kHalf) {
    Real x[kHalf], y[kHalf];
    __builtin_memcpy(x, from + j, sizeof x);
    __builtin_memcpy(y, to + j, sizeof y);
    for (std::size_t i = 0; i < kHalf; ++i) y[i] = f(x[i], y[i]);
    __builtin_memcpy(to + j, y, sizeof y);
  }
  for (; j < n; ++j) to[j] = f(from[j], to[j]);
}
template <class Real>
HETSGD_INLINE void add_numbers(std::size_t n, const Real* from, Real* to) {
  change_numbers(n, from, to, [](Real x, Real y) { return y + x; });
}
// to <- to + alpha from, rounded once.
template <class Real>
HETSGD_INLINE void add_scaled_numbers(std::size_t n, Real alpha, const Real* from, Real* to) {
  change_numbers(n, from, to, [alpha](Real x, Real y) { return std::fma(alpha, x, y); });
}

// Calls f(width), where the usual widths are constants, so that compilers write loops of a few
// instructions for them.
template <class F>
void with_width(std::size_t width, F&& f) {
  switch (width) {
    case 8:
      return f(std::integral_constant<std::size_t, 8>());
    case 16:
      return f(std::integral_constant<std::size_t, 16>());
    case 32:
      return f(std::integral_constant<std::size_t, 32>());
    default:
      return f(width);
  }
}

// to[i] <- the first D elements of row row[i] of W, one row after the other; a row of W has C
// elements. Returns the sum of the elements that the rows have behind the first D. All arguments
// are values, because a compiler must assume that the copy overwrites referenced ones.
template <class Real, class Width>
Real copy_rows(std::size_t n, const std::uint32_t* row, Width D, std::size_t C, const Real* W,
               Real* to) {
  Real sum = 0;
  for (std::size_t i = 0; i < n; ++i, to += D) {
    const Real* const w = W + row[i] * C;
    copy_numbers(D, w, to);
    if (C > D) sum += w[D];
  }
  return sum;
}

}  // namespace hetsgd::cpu
