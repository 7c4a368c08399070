// Time-to-accuracy of one curve, raw and smoothed (architecture: Measurement).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "training/record.hpp"

namespace hetsgd {

struct Evaluation {
  double time_s = 0;
  std::uint64_t samples_count = 0;
  std::uint64_t updates = 0;
  double value = 0;  // of the metric in question
  // For the other clocks (clocks.hpp). prepare_s: making the measured models so far; none: a result
  // from before it was measured. wall_s: host time since the first touch of the training data at
  // its end; none: simulated, or as above.
  std::optional<double> prepare_s = {}, wall_s = {};
};

struct TimeToAccuracy {
  std::optional<Evaluation> first;   // the first evaluation that reaches the target
  std::size_t first_evaluation = 0;  // its number; 0: the initial model
  double resolution_s = 0;           // time between it and the one before; 0: there is none
  std::optional<Evaluation>
      smoothed;  // the first at which the median of the last 5 evaluations does (paper 002);
                 // needs 5 evaluations; `value` is that median
};

inline constexpr std::size_t kSmoothingWindow = 5;

// NaN reaches nothing and sorts as the worst value.
TimeToAccuracy time_to_accuracy(std::span<const Evaluation> curve, const Target& target);

// The points of a result's `curve` at which the metric has a finite value.
std::vector<Evaluation> evaluations_of(const nlohmann::json& result, const std::string& metric);

}  // namespace hetsgd
