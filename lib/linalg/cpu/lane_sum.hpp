// Sums over the elements of a token.
#pragma once

#include <cstddef>

#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

// The sum of f(x[i], y[i], ...) over n elements: element i is added to lane i % 16, and the lanes
// are added as a tree. So the bits are the same for vectors of any size. f is given vectors, and
// single elements at the end.
template <class Real, class F, class... Pointers>
HETSGD_INLINE Real sum_in_lanes(std::size_t n, const F& f, const Pointers*... x) {
  constexpr std::size_t kSumLanes = 16, kVectors = kSumLanes / kLanes<Real>;
  Vec<Real> sum[kVectors] = {};
  std::size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) sum[v] += f(load(x + i + v * kLanes<Real>)...);
  }
  Real lane[kSumLanes];
  for (std::size_t v = 0; v < kVectors; ++v) store(lane + v * kLanes<Real>, sum[v]);
  for (; i < n; ++i) lane[i % kSumLanes] += f(x[i]...);
  for (std::size_t width = kSumLanes / 2; width > 0; width /= 2) {
    for (std::size_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

}  // namespace hetsgd::cpu
