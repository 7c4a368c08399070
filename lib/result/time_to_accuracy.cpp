#include "result/time_to_accuracy.hpp"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

namespace hetsgd {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TimeToAccuracy time_to_accuracy(std::span<const Evaluation> curve, const Target& target) {
  std::vector<double> values;
  for (const Evaluation& each : curve) values.push_back(each.value);
  const Hold hold = hold_of(target, values);
  TimeToAccuracy result;
  if (hold.first_crossing) result.first_crossing = curve[*hold.first_crossing];
  if (hold.held) {
    const std::size_t place = *hold.held;
    result.held = curve[place];
    result.evaluation = place;
    result.resolution_s = place > 0 ? curve[place].time_s - curve[place - 1].time_s : 0;
    result.judged_by = hold.judged_by;
    result.certain = hold.certain;
  }
  result.misses_at_end = values.empty() || !reached(target, values.back());
  return result;
}

std::string to_string(TargetOutcome outcome) {
  static constexpr std::array<const char*, 3> kNames = {"reached", "crossed", "not_reached"};
  return kNames[static_cast<std::size_t>(outcome)];
}

TargetOutcome TimeToAccuracy::outcome() const {
  if (held) return TargetOutcome::reached;
  return first_crossing ? TargetOutcome::crossed : TargetOutcome::not_reached;
}

std::vector<Evaluation> evaluations_of(const nlohmann::json& result, const std::string& metric) {
  std::vector<Evaluation> all;
  for (const nlohmann::json& point : result["curve"]) {
    if (!point.contains(metric)) continue;
    const nlohmann::json& value = point[metric];
    Evaluation evaluation{point["time_s"], point["samples_count"], point["updates"],
                          value.is_number() ? value.get<double>() : kNotANumber};
    if (point.contains("prepare_s")) evaluation.prepare_s = point["prepare_s"].get<double>();
    if (point.contains("wall_s")) evaluation.wall_s = point["wall_s"].get<double>();
    all.push_back(evaluation);
  }
  return all;
}

TimeToAccuracy time_to(const nlohmann::json& result, const Target& target) {
  return time_to_accuracy(evaluations_of(result, target.metric), target);
}

std::string to_string(RunClock clock) {
  static constexpr std::array<const char*, 4> kNames = {"training", "algoperf", "mlperf",
                                                        "dawnbench"};
  return kNames[static_cast<std::size_t>(clock)];
}

RunStart RunStart::of(const Record& record) {
  return {record.virtual_time, record.phases.load_s, record.phases.init_s};
}

RunStart RunStart::of(const nlohmann::json& result) {
  return {result["cluster"]["virtual_time"], result["wall"]["load_s"], result["wall"]["init_s"]};
}

std::optional<double> time_on(RunClock clock, const Evaluation& evaluation, const RunStart& start) {
  switch (clock) {
    case RunClock::training:
      return evaluation.time_s;
    case RunClock::algoperf:
      if (!evaluation.prepare_s) return std::nullopt;
      return evaluation.time_s + *evaluation.prepare_s;
    case RunClock::mlperf:
      return evaluation.wall_s;
    case RunClock::dawnbench:
      if (!evaluation.wall_s) return std::nullopt;
      return start.load_s + start.init_s + evaluation.time_s;
  }
  return std::nullopt;
}

std::string no_time_reason(const RunStart& start) {
  return start.virtual_time ? "simulated: its time is not the host's"
                            : "written before results had this clock";
}

nlohmann::json clocks_json(const Evaluation& evaluation, const RunStart& start) {
  nlohmann::json clocks = nlohmann::json::object();
  for (const RunClock clock : {RunClock::algoperf, RunClock::mlperf, RunClock::dawnbench}) {
    const std::string key = to_string(clock) + "_s";
    if (const auto time = time_on(clock, evaluation, start)) {
      clocks[key] = *time;
    } else {
      clocks[key] = nullptr;
      clocks[key + "_reason"] = no_time_reason(start);
    }
  }
  return clocks;
}

}  // namespace hetsgd
