// Time-to-accuracy of one curve, raw and smoothed (architecture: Measurement).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace hetsgd {

struct Evaluation {
  double time_s = 0;
  std::uint64_t samples_count = 0;
  std::uint64_t updates = 0;
  double value = 0;  // of the metric in question
};

struct TimeToAccuracy {
  std::optional<Evaluation> first;  // the first evaluation that reaches the target
  std::optional<Evaluation>
      smoothed;  // the first at which the median of the last 5 evaluations does (paper 002);
                 // needs 5 evaluations; `value` is that median
};

inline constexpr std::size_t kSmoothingWindow = 5;

// `at_least`: >= value, otherwise <=. NaN reaches nothing and sorts as the worst value.
TimeToAccuracy time_to_accuracy(std::span<const Evaluation> curve, bool at_least, double value);

}  // namespace hetsgd
