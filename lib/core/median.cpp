#include "core/median.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace hetsgd {

double median(std::span<const double> values) {
  HETSGD_CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const std::size_t half = sorted.size() / 2;
  if (sorted.size() % 2 == 1 || sorted[half - 1] == sorted[half]) return sorted[half];
  return (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace hetsgd
