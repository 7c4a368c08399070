// Pairs of vectors, lanes rearranged.
#pragma once

#include <cstddef>
#include <utility>

#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

template <class Real, std::size_t odd, std::size_t... lane>
HETSGD_INLINE Vec<Real> every_second(Vec<Real> a, Vec<Real> b, std::index_sequence<lane...>) {
  return __builtin_shufflevector(a, b, (2 * lane + odd)...);
}
// The even lanes (odd = 0), or the odd ones (1), of a and then of b.
template <class Real, std::size_t odd>
HETSGD_INLINE Vec<Real> every_second(Vec<Real> a, Vec<Real> b) {
  return every_second<Real, odd>(a, b, std::make_index_sequence<kLanes<Real>>());
}

template <class Real, std::size_t half, std::size_t... lane>
HETSGD_INLINE Vec<Real> interleaved(Vec<Real> a, Vec<Real> b, std::index_sequence<lane...>) {
  return __builtin_shufflevector(a, b,
                                 (half * kLanes<Real> / 2 + lane / 2 + lane % 2 * kLanes<Real>)...);
}
// a and b lane by lane in turn, a first: the first half of that (half = 0), or the second (1).
template <class Real, std::size_t half>
HETSGD_INLINE Vec<Real> interleaved(Vec<Real> a, Vec<Real> b) {
  return interleaved<Real, half>(a, b, std::make_index_sequence<kLanes<Real>>());
}

}  // namespace hetsgd::cpu
