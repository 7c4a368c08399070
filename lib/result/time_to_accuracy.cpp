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

}  // namespace hetsgd
