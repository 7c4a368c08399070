#include "result/time_to_accuracy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace hetsgd {

TimeToAccuracy time_to_accuracy(std::span<const Evaluation> curve, bool at_least, double value) {
  const double worst =
      at_least ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  const auto reaches = [&](double x) { return at_least ? x >= value : x <= value; };
  TimeToAccuracy result;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (!result.first && reaches(curve[i].value)) result.first = curve[i];
    if (result.smoothed || i + 1 < kSmoothingWindow) continue;
    std::array<double, kSmoothingWindow> window;
    for (std::size_t j = 0; j < kSmoothingWindow; ++j) {
      const double x = curve[i - j].value;
      window[j] = std::isnan(x) ? worst : x;
    }
    std::sort(window.begin(), window.end());
    const double median = window[kSmoothingWindow / 2];
    if (reaches(median)) {
      result.smoothed = curve[i];
      result.smoothed->value = median;
    }
  }
  return result;
}

}  // namespace hetsgd
