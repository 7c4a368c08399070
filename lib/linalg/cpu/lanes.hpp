// Pairs of vectors with their lanes rearranged, and matrices transposed by squares of registers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

template <class Number, std::size_t odd, std::size_t... lane>
HETSGD_INLINE Register<Number> every_second(Register<Number> a, Register<Number> b,
                                            std::index_sequence<lane...>) {
  return __builtin_shufflevector(a, b, (2 * lane + odd)...);
}
// The even lanes (odd = 0), or the odd ones (1), of a and then of b.
template <class Number, std::size_t odd>
HETSGD_INLINE Vector<Number> every_second(const Vector<Number>& a, const Vector<Number>& b) {
  constexpr auto kLane = std::make_index_sequence<kRegisterLanes<Number>>();
  const auto part = [&](std::size_t i) {
    return i < kRegisters ? a.part[i] : b.part[i - kRegisters];
  };
  Vector<Number> v;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) {
    v.part[i] = every_second<Number, odd>(part(2 * i), part(2 * i + 1), kLane);
  }
  return v;
}

template <class Number, std::size_t half, std::size_t... lane>
HETSGD_INLINE Register<Number> interleaved(Register<Number> a, Register<Number> b,
                                           std::index_sequence<lane...>) {
  return __builtin_shufflevector(
      a, b, (half * sizeof...(lane) / 2 + lane / 2 + lane % 2 * sizeof...(lane))...);
}
// The lanes of a and b in turn, a first: the first half of that sequence (half = 0), or the second
// (1).
template <class Number, std::size_t half>
HETSGD_INLINE Register<Number> interleaved(Register<Number> a, Register<Number> b) {
  return interleaved<Number, half>(a, b, std::make_index_sequence<kRegisterLanes<Number>>());
}
template <class Number, std::size_t half>
HETSGD_INLINE Vector<Number> interleaved(const Vector<Number>& a, const Vector<Number>& b) {
  Vector<Number> v;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) {
    const std::size_t at = half * kRegisters + i;  // of the sequence, in registers
    v.part[i] = at % 2 == 0 ? interleaved<Number, 0>(a.part[at / 2], b.part[at / 2])
                            : interleaved<Number, 1>(a.part[at / 2], b.part[at / 2]);
  }
  return v;
}

// v as a square matrix, transposed. Element r * lanes + l of it is lane l of v[r]. A perfect
// shuffle moves an element to the place that its index, with the bits rotated by one, names.
// log2(lanes) shuffles swap the bits of r and l. `lanes` is halved for each shuffle that is done.
template <class Real, std::size_t lanes = kRegisterLanes<Real>>
HETSGD_INLINE void transpose(Register<Real> (&v)[kRegisterLanes<Real>]) {
  constexpr std::size_t kHalf = kRegisterLanes<Real> / 2;
  if constexpr (lanes > 1) {
    Register<Real> shuffled[kRegisterLanes<Real>];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kHalf; ++i) {
      shuffled[2 * i] = interleaved<Real, 0>(v[i], v[i + kHalf]);
      shuffled[2 * i + 1] = interleaved<Real, 1>(v[i], v[i + kHalf]);
    }
    transpose<Real, lanes / 2>(shuffled);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRegisterLanes<Real>; ++i) v[i] = shuffled[i];
  }
}

// to[j * to_ld + i] = from[i * from_ld + j] for i < rows, j < columns. The last squares overlap
// those before them, so that none reaches beyond the matrix.
template <class Real>
void transpose(std::size_t rows, std::size_t columns, const Real* from, std::size_t from_ld,
               Real* to, std::size_t to_ld) {
  constexpr std::size_t kSide = kRegisterLanes<Real>;
  if (rows < kSide || columns < kSide) {
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) to[j * to_ld + i] = from[i * from_ld + j];
    }
    return;
  }
  for (std::size_t row = 0; row < rows; row += kSide) {
    const std::size_t i = std::min(row, rows - kSide);
    for (std::size_t column = 0; column < columns; column += kSide) {
      const std::size_t j = std::min(column, columns - kSide);
      Register<Real> square[kSide];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < kSide; ++r) {
        square[r] = load_register(from + (i + r) * from_ld + j);
      }
      transpose<Real>(square);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < kSide; ++r) {
        store_register(to + (j + r) * to_ld + i, square[r]);
      }
    }
  }
}

// The best labels of one sample.

// The k <= 16 best so far, best first; the smaller label wins a tie. An entry that compares false
// with everything (NaN) ranks last.
template <class Real>
struct Best {
  Real score[16];
  std::uint32_t label[16];
  std::size_t size = 0;

  static bool before(Real a, Real b) { return a > b || (!std::isnan(a) && std::isnan(b)); }

  // Labels arrive in ascending order, so an equal score goes behind those that are there.
  void insert(std::size_t k, Real s, std::uint32_t l) {
    if (size == k && !before(s, score[k - 1])) return;
    std::size_t at = size < k ? size++ : k - 1;
    for (; at > 0 && before(s, score[at - 1]); --at) {
      score[at] = score[at - 1];
      label[at] = label[at - 1];
    }
    score[at] = s;
    label[at] = l;
  }
};

}  // namespace hetsgd::cpu
