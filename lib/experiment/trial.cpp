#include "experiment/trial.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "result/statistics.hpp"
#include "result/time_to_accuracy.hpp"

namespace hetsgd {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

bool Goal::larger_is_better() const { return target ? target->at_least : higher_is_better(metric); }

std::string Goal::text() const { return target ? target->text() : metric; }

Goal parse_goal(const std::string& text, const std::string& place) {
  if (text.find_first_of("<>") == std::string::npos) {
    return {parse_target(text + ">=0", place).metric, std::nullopt};  // checks the name
  }
  const Target target = parse_target(text, place);
  return {target.metric, target};
}

TrialOutcome judge(const nlohmann::json& result, const Goal& goal) {
  TrialOutcome trial;
  trial.seed = result.at("config").at("seed");
  trial.status = result.at("status");
  if (result.at("status_reason").is_string()) trial.status_reason = result.at("status_reason");
  trial.samples_count = result.at("summary").at("samples_count");
  trial.train_s = result.at("summary").at("elapsed_s");
  trial.wall_s = result.at("wall").at("total_s");
  if (trial.status != to_string(Status::completed) || result.at("curve").empty()) return trial;
  const nlohmann::json& last = result.at("curve").back();
  if (last.contains(goal.metric) && last[goal.metric].is_number()) trial.value = last[goal.metric];
  if (!goal.target) return trial;
  const std::vector<Evaluation> curve = evaluations_of(result, goal.metric);
  if (const auto held = time_to_accuracy(curve, *goal.target).held) {
    trial.time_to_target_s = held->time_s;
  }
  return trial;
}

Score score_of(const Goal& goal, std::span<const TrialOutcome> trials) {
  const double worst = goal.larger_is_better() ? -kNever : kNever;
  std::vector<double> values, times;
  for (const TrialOutcome& trial : trials) {
    values.push_back(trial.value.value_or(worst));
    times.push_back(trial.time_to_target_s.value_or(kNever));
  }
  return {median(values), median(times)};
}

std::optional<std::size_t> best_of(const Goal& goal, std::span<const Score> scores) {
  const bool larger = goal.larger_is_better();
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const Score& now = scores[i];
    if (!std::isfinite(now.value)) continue;
    if (!best) {
      best = i;
      continue;
    }
    const Score& before = scores[*best];
    const bool better_value = larger ? now.value > before.value : now.value < before.value;
    const bool better = now.time_to_target_s < before.time_to_target_s ||
                        (now.time_to_target_s == before.time_to_target_s && better_value);
    if (better) best = i;
  }
  return best;
}

void TuningCost::add(const TrialOutcome& trial) {
  ++trials;
  samples_count += trial.samples_count;
  train_s += trial.train_s;
  wall_s += trial.wall_s;
}

}  // namespace hetsgd
