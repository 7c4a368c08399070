// The time-to-accuracy of one curve, and the clocks that can measure it.
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
  // Times for the other clocks (RunClock). prepare_s is the time of making the measured models so
  // far; none in older results. wall_s is the wall-clock time from the first reading of the
  // training data to the end of the evaluation; none in simulated and older results.
  std::optional<double> prepare_s = {}, wall_s = {};
};

// crossed: at least one evaluation reaches the target, but it is never held.
enum class TargetOutcome { reached, crossed, not_reached };
std::string to_string(TargetOutcome outcome);

// A target counts as reached when it is held (training/target.hpp).
struct TimeToAccuracy {
  std::optional<Evaluation> held;            // it is held from this evaluation on
  std::optional<Evaluation> first_crossing;  // the first evaluation that reaches it
  std::size_t evaluation = 0;                // number of `held`; 0: the initial model
  double resolution_s = 0;     // time between `held` and the evaluation before; 0: there is none
  std::size_t judged_by = 0;   // evaluations that decided it, at most kHoldEvaluations
  bool certain = false;        // no further evaluation could have changed that it is held
  bool misses_at_end = false;  // the last evaluation misses the target

  TargetOutcome outcome() const;
};

TimeToAccuracy time_to_accuracy(std::span<const Evaluation> curve, const Target& target);

// The points of a result's `curve` that measured the metric. A value that is not finite is NaN.
std::vector<Evaluation> evaluations_of(const nlohmann::json& result, const std::string& metric);
// The time by the curve of a result.
TimeToAccuracy time_to(const nlohmann::json& result, const Target& target);

// "Time to a target" has four meanings: the training clock, and three clocks of public benchmarks.
//
//   training    the run's own clock: neither loading nor measuring, on every cluster
//   algoperf    training + making the measured models so far (AlgoPerf times prepare_for_eval and
//               not the evaluation)
//   mlperf      wall-clock time from first reading the training data to the end of the evaluation,
//               never paused. Initialisation follows the data, whose shape it needs, so it is
//               inside, though MLPerf would forgive 30 minutes before the first touch
//   dawnbench   load_s + init_s + training (DAWNBench's validation and checkpoints may stay out)
//
// A simulated run does not have the last two, because its time is not the host's. Its algoperf
// charges one pass over the parameters on the host for every replica in a measured model.
enum class RunClock { training, algoperf, mlperf, dawnbench };
std::string to_string(RunClock clock);

// The facts that a clock needs besides the evaluation.
struct RunStart {
  bool virtual_time = false;
  double load_s = 0, init_s = 0;

  static RunStart of(const Record& record);
  static RunStart of(const nlohmann::json& result);  // a valid one
};

// The time of the evaluation on the clock. None if the run has no such clock (no_time_reason).
std::optional<double> time_on(RunClock clock, const Evaluation& evaluation, const RunStart& start);
std::string no_time_reason(const RunStart& start);

// {"algoperf_s", "mlperf_s", "dawnbench_s"} of an evaluation. A null has its reason beside it.
nlohmann::json clocks_json(const Evaluation& evaluation, const RunStart& start);

}  // namespace hetsgd
