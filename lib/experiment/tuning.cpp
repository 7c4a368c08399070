#include "experiment/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/bytes.hpp"
#include "core/error.hpp"
#include "core/json_file.hpp"
#include "core/logging.hpp"
#include "core/median.hpp"
#include "core/text.hpp"
#include "data/source.hpp"
#include "experiment/search_space.hpp"
#include "result/result.hpp"
#include "result/time_to_accuracy.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// A finer grid than by factors of 1.1 over four decades tells nothing more.
constexpr std::int64_t kMostRates = 100;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Parses FROM:TO:COUNT.
std::vector<double> geometric_grid(const std::string& text, const std::string& place) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() != 3) refuse(place, quote(text), "FROM:TO:COUNT such as 0.01:1:5");
  const double from = parse_double(place, parts[0]), to = parse_double(place, parts[1]);
  const auto count = static_cast<std::size_t>(parse_integer(place, parts[2], 2, kMostRates));
  if (!(from > 0 && to > from)) refuse(place, quote(text), "0 < FROM < TO");
  return geometric_values(from, to, count);
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

std::optional<double> number_or_none(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

TrialOutcome trial_of(const json& entry) {
  TrialOutcome trial;
  trial.seed = entry["seed"];
  trial.status = entry["status"];
  const json none;
  if (const json reason = entry.value("status_reason", none); !reason.is_null()) {
    trial.status_reason = reason;
  }
  trial.value = number_or_none(entry.value("value", none));
  trial.time_to_target_s = number_or_none(entry.value("time_to_target_s", none));
  trial.samples_count = entry["samples_count"];
  trial.train_s = entry["train_s"];
  trial.wall_s = entry["wall_s"];
  return trial;
}

json trials_json(const Tuning& tuning, const AlgorithmTuning& algorithm) {
  json trials = json::array();
  for (std::size_t i = 0; i < algorithm.trials.size(); ++i) {
    for (const TrialOutcome& trial : algorithm.trials[i]) {
      trials.push_back(trial_json(trial));
      trials.back()["learning_rate"] = tuning.grid[i];
    }
  }
  return trials;
}

json algorithm_json(const Tuning& tuning, const AlgorithmTuning& algorithm) {
  const std::optional<Choice> choice = choose(tuning, algorithm);
  return {{"algorithm", algorithm.algorithm},
          {"config", algorithm.config},
          {"grid", tuning.grid},
          {"trials", trials_json(tuning, algorithm)},
          {"learning_rate", choice ? json(choice->learning_rate) : json(nullptr)},
          {"edge_of_grid", choice ? json(choice->edge_of_grid) : json(nullptr)},
          {"cost", cost_json(cost_of(algorithm.trials))}};
}

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
  if (const auto held = time_to(result, *goal.target).held) trial.time_to_target_s = held->time_s;
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

std::string outcome_text(const Goal& goal, std::span<const TrialOutcome> trials) {
  const Score score = score_of(goal, trials);
  std::string text = fmt::format("{} {:.4f}", goal.metric, score.value);
  if (!goal.target) return text;
  return text + (std::isfinite(score.time_to_target_s)
                     ? fmt::format(", {} after {}", goal.text(),
                                   format_seconds(Seconds(score.time_to_target_s)))
                     : fmt::format(", {} missed", goal.text()));
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

void warn_of_missed_target(const Goal& goal, std::span<const TrialOutcome> chosen,
                           std::string_view what) {
  const Score score = score_of(goal, chosen);
  if (!goal.target || std::isfinite(score.time_to_target_s)) return;
  warn(
      "{}: no choice reaches {} (median over the seeds), so the best final {}, {:.4g}, decided; "
      "use "
      "an easier target or more epochs",
      what, goal.text(), goal.metric, score.value);
}

TuningCost& TuningCost::operator+=(const TuningCost& other) {
  trials += other.trials;
  samples_count += other.samples_count;
  train_s += other.train_s;
  wall_s += other.wall_s;
  return *this;
}

TuningCost cost_of(const std::vector<Trials>& all) {
  TuningCost sum;
  for (const Trials& trials : all) {
    for (const TrialOutcome& each : trials) {
      sum += {1, each.samples_count, each.train_s, each.wall_s};
    }
  }
  return sum;
}

std::vector<double> parse_grid(const std::string& text, const std::string& place) {
  std::vector<double> grid = text.find(':') != std::string::npos ? geometric_grid(text, place)
                                                                 : parse_doubles(place, text);
  std::ranges::sort(grid);
  if (grid.front() <= 0) {
    refuse(place, fmt::format("{}", grid.front()), "learning rates above 0");
  }
  const auto twice = std::adjacent_find(grid.begin(), grid.end());
  if (twice != grid.end()) {
    refuse(place, fmt::format("{} twice", *twice), "each learning rate once");
  }
  return grid;
}

bool Tuning::complete(const AlgorithmTuning& tuning) const {
  return std::ranges::all_of(tuning.trials,
                             [&](const Trials& each) { return each.size() == seeds.size(); });
}

std::optional<Choice> choose(const Tuning& tuning, const AlgorithmTuning& algorithm) {
  if (!tuning.complete(algorithm)) return std::nullopt;
  std::vector<Score> scores;
  for (const Trials& trials : algorithm.trials) {
    scores.push_back(score_of(tuning.goal, trials));
  }
  const std::optional<std::size_t> best = best_of(tuning.goal, scores);
  if (!best) return std::nullopt;
  return Choice{*best, tuning.grid[*best], *best == 0 || *best + 1 == tuning.grid.size()};
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
    refuse(place, "no tuning of " + name, "one of " + alternatives(names));
  }
  if (!tuning.complete(*found)) {
    throw with_hint(usage_error("{}: the tuning of {} is not complete", place, name),
                    "hetsgd tune --resume continues it");
  }
  const std::optional<Choice> choice = choose(tuning, *found);
  if (!choice) {
    throw with_hint(usage_error("{}: no trial of {} completed", place, name),
                    "tune with smaller learning rates");
  }
  // A final run changes its seed, its data, its budget and its measurements.
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
  const TuningCost cost = cost_of(found->trials);
  return {{"grid", tuning.grid},
          {"seeds", tuning.seeds},
          {"trials", cost.trials},
          {"goal", tuning.goal.text()},
          {"validation", tuning.validation},
          {"validation_rows", tuning.dataset["validation"]["rows"]},
          {"learning_rate", choice->learning_rate},
          {"edge_of_grid", choice->edge_of_grid},
          {"samples_count", cost.samples_count},
          {"train_s", cost.train_s},
          {"differs", differs},
          {"file_hash", tuning_hash(tuning, *found)}};
}

json trial_json(const TrialOutcome& trial) {
  return {
      {"seed", trial.seed},
      {"status", trial.status},
      {"status_reason", trial.status_reason.empty() ? json(nullptr) : json(trial.status_reason)},
      {"value", or_null(trial.value)},
      {"time_to_target_s", or_null(trial.time_to_target_s)},
      {"samples_count", trial.samples_count},
      {"train_s", trial.train_s},
      {"wall_s", trial.wall_s}};
}

json cost_json(const TuningCost& cost) {
  return {{"trials", cost.trials},
          {"samples_count", cost.samples_count},
          {"train_s", cost.train_s},
          {"wall_s", cost.wall_s}};
}

json tuning_json(const Tuning& tuning, const std::vector<std::string>& args) {
  json algorithms = json::array();
  bool complete = true;
  TuningCost cost;
  for (const AlgorithmTuning& algorithm : tuning.algorithms) {
    algorithms.push_back(algorithm_json(tuning, algorithm));
    complete = complete && tuning.complete(algorithm);
    cost += cost_of(algorithm.trials);
  }
  json document = {{"schema_version", "1.0"},    {"kind", "tuning"},
                   {"tool", tool_json()},        {"args", json_text(args)},
                   {"goal", tuning.goal.text()}, {"grid", tuning.grid},
                   {"seeds", tuning.seeds},      {"validation", tuning.validation},
                   {"dataset", tuning.dataset},  {"algorithms", std::move(algorithms)},
                   {"cost", cost_json(cost)},    {"status", complete ? "completed" : "running"}};
  escape_bytes(document);
  return document;
}

std::string tuning_hash(const Tuning& tuning, const AlgorithmTuning& algorithm) {
  json decided = {tuning.goal.text(), tuning.grid, tuning.seeds, tuning.dataset,
                  algorithm.algorithm};
  for (json& trial : trials_json(tuning, algorithm)) {
    trial.erase("wall_s");
    decided.push_back(std::move(trial));
  }
  escape_bytes(decided);
  return fmt::format("xxh3:{:016x}", content_hash(decided.dump()));
}

Tuning tuning_of(const json& document) {
  Tuning tuning;
  tuning.goal = parse_goal(document["goal"], "goal");
  tuning.grid = document["grid"].get<std::vector<double>>();
  tuning.seeds = document["seeds"].get<std::vector<std::uint64_t>>();
  tuning.validation = document["validation"];
  tuning.dataset = document.value("dataset", json());
  for (const json& entry : document["algorithms"]) {
    AlgorithmTuning& algorithm = tuning.algorithms.emplace_back();
    algorithm = {entry["algorithm"], entry["config"], std::vector<Trials>(tuning.grid.size())};
    for (const json& each : entry["trials"]) {
      const TrialOutcome trial = trial_of(each);
      const auto rate = std::ranges::find(tuning.grid, each["learning_rate"].get<double>());
      if (rate == tuning.grid.end() || std::ranges::count(tuning.seeds, trial.seed) == 0) {
        refuse(algorithm.algorithm,
               fmt::format("a trial with learning rate {} and seed {}",
                           each["learning_rate"].dump(), trial.seed),
               "a learning rate of the grid and a seed of the list", "", ExitCode::data);
      }
      algorithm.trials[static_cast<std::size_t>(rate - tuning.grid.begin())].push_back(trial);
    }
  }
  return tuning;
}

bool is_tuning(const json& document) {
  return document.is_object() && document.value("kind", json()) == "tuning";
}

json read_tuning(const std::string& path) {
  json document = read_json(path);
  if (!is_tuning(document)) {
    throw with_hint(data_error("{}: not a file of hetsgd tune", path),
                    "hetsgd tune -o FILE writes one");
  }
  check_fields(path, document,
               {"goal text",
                "grid list",
                "grid[] number",
                "seeds list",
                "seeds[] count",
                "validation number",
                "dataset object?",
                "algorithms list",
                "algorithms[].algorithm text",
                "algorithms[].config object",
                "algorithms[].trials list",
                "algorithms[].trials[].learning_rate number",
                "algorithms[].trials[].seed count",
                "algorithms[].trials[].status text",
                "algorithms[].trials[].status_reason text?",
                "algorithms[].trials[].value number?",
                "algorithms[].trials[].time_to_target_s number?",
                "algorithms[].trials[].samples_count count",
                "algorithms[].trials[].train_s number",
                "algorithms[].trials[].wall_s number"});
  for (const char* const key : {"grid", "seeds"}) {
    if (document[key].empty()) {
      refuse(fmt::format("{}: {}", path, key), "[]", "at least one number", "", ExitCode::data);
    }
  }
  return document;
}

}  // namespace hetsgd
