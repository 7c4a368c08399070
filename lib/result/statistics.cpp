#include "result/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {
namespace {

// Reorders `values`.
double median_in_place(std::vector<double>& values) {
  const std::size_t middle = values.size() / 2;
  const auto upper = values.begin() + static_cast<std::ptrdiff_t>(middle);
  std::nth_element(values.begin(), upper, values.end());
  if (values.size() % 2 == 1) return *upper;
  return (*std::max_element(values.begin(), upper) + *upper) / 2;
}

}  // namespace

double median(std::span<const double> values) {
  HETSGD_CHECK(!values.empty());
  std::vector<double> copy(values.begin(), values.end());
  return median_in_place(copy);
}

Interval bootstrap_median(std::span<const double> values, std::uint64_t seed) {
  HETSGD_CHECK(std::none_of(values.begin(), values.end(), [](double x) { return std::isnan(x); }));
  Interval interval;
  interval.median = median(values);
  RandomStream random(seed, Purpose::bootstrap);
  std::vector<double> resample(values.size());
  std::vector<double> medians(kResamples);
  for (double& each : medians) {
    for (double& x : resample) x = values[random.below(values.size())];
    each = median_in_place(resample);
  }
  std::sort(medians.begin(), medians.end());
  constexpr std::size_t kTail = kResamples / 40;  // 2.5 % on each side
  interval.low = medians[kTail];
  interval.high = medians[kResamples - 1 - kTail];
  return interval;
}

}  // namespace hetsgd
