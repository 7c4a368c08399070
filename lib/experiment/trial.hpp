// Trials: runs that decide between settings, whatever is tuned. The one place that says what a run
// comes to as a trial, and which settings are the best.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "training/record.hpp"

namespace hetsgd {

// What decides between trials: the final value of a metric, or the time to a target. Where
// times are equal, and where no trial reaches the target, the final value decides.
struct Goal {
  std::string metric;
  std::optional<Target> target;
  bool larger_is_better() const;
  std::string text() const;  // "p1" or "p1>=0.6"
};
// Errors: usage, naming `place`.
Goal parse_goal(const std::string& text, const std::string& place);

// How a trial ended.
struct TrialOutcome {
  std::uint64_t seed = 0;
  std::string status;                      // as in a result; diverged and failed are the worst
  std::string status_reason;               // "" or why
  std::optional<double> value;             // final value of the metric; none: diverged, failed
  std::optional<double> time_to_target_s;  // none: no target, missed, diverged or failed
  std::uint64_t samples_count = 0;
  double train_s = 0;  // training clock
  double wall_s = 0;   // host time of the whole trial
};

// Of a run whose result this is.
TrialOutcome judge(const nlohmann::json& result, const Goal& goal);

// Of trials with the same settings and different seeds: medians.
struct Score {
  double value = 0;             // infinite: the worst (diverged or failed)
  double time_to_target_s = 0;  // infinity: missed, or the goal is no target
};
// At least one trial. One that diverged or failed counts as worst.
Score score_of(const Goal& goal, std::span<const TrialOutcome> trials);
// The place of the best: by the time to the target, then by the final value; of equal ones the
// first. None: no value is finite.
std::optional<std::size_t> best_of(const Goal& goal, std::span<const Score> scores);

struct TuningCost {
  std::uint64_t trials = 0;
  std::uint64_t samples_count = 0;
  double train_s = 0, wall_s = 0;
  void add(const TrialOutcome& trial);
};

}  // namespace hetsgd
