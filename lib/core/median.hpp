#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace hetsgd {

// The middle value, or the mean of the two middle ones. May be infinite. Needs at least one value,
// and none that is NaN.
inline double median(std::span<const double> values) {
  HETSGD_CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const std::size_t half = sorted.size() / 2;
  if (sorted.size() % 2 == 1 || sorted[half - 1] == sorted[half]) return sorted[half];
  return (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace hetsgd
