// Time-to-accuracy of one curve (architecture: Measurement).
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

// crossed: at least one evaluation reaches the target, but it is never held.
enum class TargetOutcome { reached, crossed, not_reached };
std::string to_string(TargetOutcome outcome);

// A target counts as reached when it is held (training/target.hpp).
struct TimeToAccuracy {
  std::optional<Evaluation> held;            // the evaluation from which on it is held
  std::optional<Evaluation> first_crossing;  // the first evaluation that reaches it
  std::size_t evaluation = 0;                // number of `held`; 0: the initial model
  double resolution_s = 0;     // time between `held` and the evaluation before; 0: there is none
  std::size_t judged_by = 0;   // evaluations that decided that it is held, at most kHoldEvaluations
  bool certain = false;        // no further evaluation could have changed that it is held
  bool misses_at_end = false;  // the last evaluation misses the target

  TargetOutcome outcome() const;
};

TimeToAccuracy time_to_accuracy(std::span<const Evaluation> curve, const Target& target);

// The points of a result's `curve` that measured the metric; a value that is not finite is NaN.
std::vector<Evaluation> evaluations_of(const nlohmann::json& result, const std::string& metric);

}  // namespace hetsgd
