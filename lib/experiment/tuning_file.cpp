// The file of a tuning.
#include <fmt/format.h>

#include "core/bytes.hpp"
#include "core/error.hpp"
#include "core/json_file.hpp"
#include "core/version.hpp"
#include "data/source.hpp"
#include "experiment/tuning.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

std::optional<double> number_or_none(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

json trial_json(const Trial& trial) {
  return {
      {"learning_rate", trial.learning_rate},
      {"seed", trial.seed},
      {"status", trial.status},
      {"status_reason", trial.status_reason.empty() ? json(nullptr) : json(trial.status_reason)},
      {"value", or_null(trial.value)},
      {"time_to_target_s", or_null(trial.time_to_target_s)},
      {"samples_count", trial.samples_count},
      {"train_s", trial.train_s},
      {"wall_s", trial.wall_s}};
}

Trial trial_of(const json& entry) {
  Trial trial;
  trial.learning_rate = entry["learning_rate"];
  trial.seed = entry["seed"];
  trial.status = entry["status"];
  if (!entry["status_reason"].is_null()) trial.status_reason = entry["status_reason"];
  trial.value = number_or_none(entry["value"]);
  trial.time_to_target_s = number_or_none(entry["time_to_target_s"]);
  trial.samples_count = entry["samples_count"];
  trial.train_s = entry["train_s"];
  trial.wall_s = entry["wall_s"];
  return trial;
}

json cost_json(const TuningCost& cost) {
  return {{"trials", cost.trials},
          {"samples_count", cost.samples_count},
          {"train_s", cost.train_s},
          {"wall_s", cost.wall_s}};
}

TuningCost total_cost(const Tuning& tuning) {
  TuningCost sum;
  for (const AlgorithmTuning& algorithm : tuning.algorithms) {
    const TuningCost cost = algorithm.cost();
    sum.trials += cost.trials;
    sum.samples_count += cost.samples_count;
    sum.train_s += cost.train_s;
    sum.wall_s += cost.wall_s;
  }
  return sum;
}

json algorithm_json(const Tuning& tuning, const AlgorithmTuning& algorithm) {
  json trials = json::array();
  for (const Trial& trial : algorithm.trials) trials.push_back(trial_json(trial));
  const std::optional<Choice> choice = choose(tuning, algorithm);
  return {{"algorithm", algorithm.algorithm},
          {"config", algorithm.config},
          {"grid", tuning.grid},
          {"trials", std::move(trials)},
          {"learning_rate", choice ? json(choice->learning_rate) : json(nullptr)},
          {"edge_of_grid", choice ? json(choice->edge_of_grid) : json(nullptr)},
          {"cost", cost_json(algorithm.cost())}};
}

// What follows from the trials, and must be what the file says.
void check_conclusions(const json& document, const Tuning& tuning, std::vector<Finding>& findings) {
  const json expected = tuning_json(tuning, {});
  for (std::size_t i = 0; i < tuning.algorithms.size(); ++i) {
    for (const char* key : {"grid", "learning_rate", "edge_of_grid", "cost"}) {
      const json& found = document["algorithms"][i][key];
      const json& right = expected["algorithms"][i][key];
      if (found == right) continue;
      findings.push_back(
          {fmt::format("/algorithms/{}/{}", i, key),
           fmt::format("found {}, but by the trials it is {}", found.dump(), right.dump())});
    }
  }
  for (const char* key : {"cost", "status"}) {
    if (document[key] == expected[key]) continue;
    findings.push_back(
        {fmt::format("/{}", key), fmt::format("found {}, but by the trials it is {}",
                                              document[key].dump(), expected[key].dump())});
  }
}

}  // namespace

json tuning_json(const Tuning& tuning, const std::vector<std::string>& args) {
  json algorithms = json::array();
  bool complete = true;
  for (const AlgorithmTuning& algorithm : tuning.algorithms) {
    algorithms.push_back(algorithm_json(tuning, algorithm));
    complete = complete && tuning.complete(algorithm);
  }
  json document = {{"schema_version", "1.0"},
                   {"kind", "tuning"},
                   {"tool",
                    {{"name", "hetsgd"},
                     {"version", version()},
                     {"git_revision", git_revision()},
                     {"git_dirty", git_dirty()}}},
                   {"args", json_text(args)},
                   {"goal", tuning.goal.text()},
                   {"grid", tuning.grid},
                   {"seeds", tuning.seeds},
                   {"validation", tuning.validation},
                   {"dataset", tuning.dataset},
                   {"algorithms", std::move(algorithms)},
                   {"cost", cost_json(total_cost(tuning))},
                   {"status", complete ? "completed" : "running"}};
  escape_bytes(document);
  return document;
}

std::string tuning_hash(const Tuning& tuning, const AlgorithmTuning& algorithm) {
  json decided = {tuning.goal.text(), tuning.grid, tuning.seeds, tuning.dataset,
                  algorithm.algorithm};
  for (const Trial& trial : algorithm.trials) {
    decided.push_back(trial_json(trial));
    decided.back().erase("wall_s");
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
  tuning.dataset = document["dataset"];
  for (const json& entry : document["algorithms"]) {
    AlgorithmTuning algorithm{entry["algorithm"], entry["config"], {}};
    for (const json& trial : entry["trials"]) algorithm.trials.push_back(trial_of(trial));
    tuning.algorithms.push_back(std::move(algorithm));
  }
  return tuning;
}

bool is_tuning(const json& document) {
  return document.is_object() && document.value("kind", json()) == "tuning";
}

std::vector<Finding> validate_tuning(const json& document) {
  std::vector<Finding> findings = check_schema(tuning_schema(), document);
  if (!findings.empty()) return findings;
  try {
    check_conclusions(document, tuning_of(document), findings);
  } catch (const Error& error) {
    findings.push_back({"/goal", error.what()});
  }
  return findings;
}

json read_tuning(const std::string& path) {
  json document = read_json(path);
  if (!is_tuning(document)) {
    throw with_hint(data_error("{}: not the file of a tuning", path),
                    "hetsgd tune -o FILE writes one");
  }
  const std::vector<Finding> findings = validate_tuning(document);
  if (findings.empty()) return document;
  throw data_error("{}: not a valid tuning: {}: {}", path,
                   findings.front().pointer.empty() ? "/" : findings.front().pointer,
                   findings.front().text);
}

}  // namespace hetsgd
