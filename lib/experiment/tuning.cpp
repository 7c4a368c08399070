#include "experiment/tuning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "experiment/search_space.hpp"
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

namespace {

using nlohmann::json;

// FROM:TO:COUNT.
std::vector<double> geometric_grid(const std::string& text, const std::string& place) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() != 3) {
    throw usage_error("{}: found {}, expected FROM:TO:COUNT such as 0.01:1:5", place, quote(text));
  }
  const double from = parse_double(place, parts[0]), to = parse_double(place, parts[1]);
  const auto count = static_cast<std::size_t>(parse_integer(place, parts[2], 2, 1000));
  if (!(from > 0 && to > from)) {
    throw usage_error("{}: found {}, expected 0 < FROM < TO", place, quote(text));
  }
  return geometric_values(from, to, count);
}

}  // namespace

std::vector<double> parse_grid(const std::string& text, const std::string& place) {
  std::vector<double> grid = text.find(':') != std::string::npos ? geometric_grid(text, place)
                                                                 : parse_doubles(place, text);
  std::sort(grid.begin(), grid.end());
  if (grid.front() <= 0) {
    throw usage_error("{}: found {}, expected learning rates above 0", place, grid.front());
  }
  const auto twice = std::adjacent_find(grid.begin(), grid.end());
  if (twice != grid.end()) {
    throw usage_error("{}: found {} twice, expected each learning rate once", place, *twice);
  }
  return grid;
}

TuningCost AlgorithmTuning::cost() const {
  TuningCost sum;
  for (const Trial& trial : trials) sum.add(trial);
  return sum;
}

const Trial* AlgorithmTuning::find(double learning_rate, std::uint64_t seed) const {
  const auto found = std::find_if(trials.begin(), trials.end(), [&](const Trial& trial) {
    return trial.learning_rate == learning_rate && trial.seed == seed;
  });
  return found == trials.end() ? nullptr : &*found;
}

bool Tuning::complete(const AlgorithmTuning& tuning) const {
  for (const double rate : grid) {
    for (const std::uint64_t seed : seeds) {
      if (tuning.find(rate, seed) == nullptr) return false;
    }
  }
  return true;
}

std::optional<Score> score(const Tuning& tuning, const AlgorithmTuning& algorithm,
                           double learning_rate) {
  std::vector<TrialOutcome> trials;
  for (const std::uint64_t seed : tuning.seeds) {
    const Trial* const trial = algorithm.find(learning_rate, seed);
    if (trial == nullptr) return std::nullopt;
    trials.push_back(*trial);
  }
  return score_of(tuning.goal, trials);
}

std::optional<Choice> choose(const Tuning& tuning, const AlgorithmTuning& algorithm) {
  if (!tuning.complete(algorithm)) return std::nullopt;
  std::vector<Score> scores;
  for (const double rate : tuning.grid) scores.push_back(*score(tuning, algorithm, rate));
  const std::optional<std::size_t> best = best_of(tuning.goal, scores);
  if (!best) return std::nullopt;
  return Choice{tuning.grid[*best], *best == 0 || *best + 1 == tuning.grid.size(), scores[*best]};
}

nlohmann::json tuning_of_run(const Tuning& tuning, const json& config, const std::string& place) {
  const std::string name = config["algorithm"];
  std::vector<std::string> names;
  const AlgorithmTuning* found = nullptr;
  for (const AlgorithmTuning& each : tuning.algorithms) {
    names.push_back(each.algorithm);
    if (each.algorithm == name) found = &each;
  }
  if (found == nullptr) {
    throw usage_error("{}: {} was not tuned, found {}", place, name, alternatives(names));
  }
  if (!tuning.complete(*found)) {
    throw with_hint(usage_error("{}: the tuning of {} is not complete", place, name),
                    "hetsgd tune --resume goes on with it");
  }
  const std::optional<Choice> choice = choose(tuning, *found);
  if (!choice) {
    throw with_hint(usage_error("{}: no trial of {} ended well", place, name),
                    "tune with smaller learning rates");
  }
  // What a measurement changes: its seed, data, budget and what it measures.
  static const std::set<std::string> kFree = {"learning_rate",   "seed",         "test",
                                              "validation",      "cache",        "target",
                                              "epochs",          "max_samples",  "max_time",
                                              "stop_at_target",  "record_steps", "evaluate_every",
                                              "evaluate_samples"};
  std::set<std::string> differs;
  for (const auto& [key, value] : config.items()) {
    if (!kFree.contains(key) && (!found->config.contains(key) || found->config[key] != value)) {
      differs.insert(key);
    }
  }
  return {{"grid", tuning.grid},
          {"seeds", tuning.seeds},
          {"trials", found->trials.size()},
          {"goal", tuning.goal.text()},
          {"validation", tuning.validation},
          {"validation_rows", tuning.dataset["validation"]["rows"]},
          {"learning_rate", choice->learning_rate},
          {"edge_of_grid", choice->edge_of_grid},
          {"samples_count", found->cost().samples_count},
          {"train_s", found->cost().train_s},
          {"differs", differs},
          {"file_hash", tuning_hash(tuning, *found)}};
}

}  // namespace hetsgd
