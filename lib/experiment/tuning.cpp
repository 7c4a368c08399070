#include "experiment/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/median.hpp"
#include "core/text.hpp"
#include "data/source.hpp"
#include "experiment/search_space.hpp"
#include "result/result.hpp"
#include "result/time_to_accuracy.hpp"
#include "result/validate.hpp"

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

json finite_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json trial_json(const TrialOutcome& trial) {
  return {
      {"id", trial.id},
      {"seed", trial.seed},
      {"status", trial.status},
      {"status_reason", trial.status_reason.empty() ? json(nullptr) : json(trial.status_reason)},
      {"value", or_null(trial.value)},
      {"time_to_target_s", or_null(trial.time_to_target_s)},
      {"samples_count", trial.samples_count},
      {"train_s", trial.train_s},
      {"wall_s", trial.wall_s}};
}

json point_json(const Goal& goal, const TriedPoint& point) {
  json trials = json::array();
  for (const TrialOutcome& trial : point.trials) trials.push_back(trial_json(trial));
  const Score score = score_of(goal, point.trials);
  return {{"parameters", point.parameters},
          {"value", finite_or_null(score.value)},
          {"time_to_target_s", finite_or_null(score.time_to_target_s)},
          {"trials", std::move(trials)}};
}

json cost_json(const TuningCost& cost) {
  return {{"trials", cost.trials},
          {"samples_count", cost.samples_count},
          {"train_s", cost.train_s},
          {"wall_s", cost.wall_s}};
}

json cell_json(const Tuning& tuning) {
  json candidates = json::array();
  for (const TriedPoint& each : tuning.points) candidates.push_back(point_json(tuning.goal, each));
  return {{"setup", tuning.setup},
          {"case", tuning.case_name},
          {"algorithm", tuning.algorithm},
          {"goal", tuning.goal.text()},
          {"seeds", tuning.seeds},
          {"config", tuning.config},
          {"dataset", tuning.dataset},
          {"candidates", std::move(candidates)},
          {"chosen", tuning.best ? tuning.points[*tuning.best].parameters : json(nullptr)},
          {"edges", tuning.edges},
          {"note", tuning.note},
          {"warnings", warnings_of(tuning)},
          {"cost", cost_json(cost_of(tuning.points))}};
}

std::string hash_of(const Tuning& tuning, const std::vector<double>& grid,
                    const std::vector<TriedPoint>& by_rate) {
  json decided = {tuning.goal.text(), grid, tuning.seeds, tuning.dataset, tuning.algorithm};
  for (const TriedPoint& point : by_rate) {
    for (const TrialOutcome& each : point.trials) {
      json trial = trial_json(each);
      trial.erase("id");
      trial.erase("wall_s");
      trial["learning_rate"] = point.learning_rate();
      decided.push_back(std::move(trial));
    }
  }
  escape_bytes(decided);
  return fmt::format("xxh3:{:016x}", content_hash(decided.dump()));
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

std::optional<std::size_t> best_of(const Goal& goal, std::span<const TriedPoint> points) {
  const bool larger = goal.larger_is_better();
  std::optional<std::size_t> best;
  Score before;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Score now = score_of(goal, points[i].trials);
    if (!std::isfinite(now.value)) continue;
    const bool better_value = larger ? now.value > before.value : now.value < before.value;
    const bool better = now.time_to_target_s < before.time_to_target_s ||
                        (now.time_to_target_s == before.time_to_target_s && better_value);
    if (best && !better) continue;
    best = i;
    before = now;
  }
  return best;
}

std::vector<std::string> warnings_of(const Tuning& tuning) {
  if (!tuning.best) {
    return {"every trial diverged or failed, so there is no choice; try smaller learning rates"};
  }
  std::vector<std::string> warnings;
  const TriedPoint& chosen = tuning.points[*tuning.best];
  const Score score = score_of(tuning.goal, chosen.trials);
  if (tuning.goal.target && !std::isfinite(score.time_to_target_s)) {
    warnings.push_back(fmt::format(
        "no choice reaches {} (median over the seeds), so the best final {}, {:.4g}, decided; use "
        "an easier target or more epochs",
        tuning.goal.text(), tuning.goal.metric, score.value));
  }
  for (const std::string& name : tuning.edges) {
    warnings.push_back(fmt::format(
        "the best {}, {}, lies at the edge of its values; a wider range may have a better one",
        name, chosen.parameters[name].dump()));
  }
  return warnings;
}

TuningCost& TuningCost::operator+=(const TuningCost& other) {
  trials += other.trials;
  samples_count += other.samples_count;
  train_s += other.train_s;
  wall_s += other.wall_s;
  return *this;
}

TuningCost cost_of(std::span<const TriedPoint> points) {
  TuningCost sum;
  for (const TriedPoint& point : points) {
    for (const TrialOutcome& each : point.trials) {
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

json note_of(const Tuning& tuning) {
  const auto has_rate_alone = [](const TriedPoint& point) {
    return point.parameters.size() == 1 && point.parameters.contains("learning_rate") &&
           point.parameters["learning_rate"].is_number();
  };
  if (!tuning.best || !std::ranges::all_of(tuning.points, has_rate_alone)) return nullptr;
  // In one order, the sums and the hash are the same for every order of the list.
  std::vector<TriedPoint> by_rate = tuning.points;
  std::ranges::sort(by_rate, {}, &TriedPoint::learning_rate);
  std::vector<double> grid;
  for (const TriedPoint& point : by_rate) grid.push_back(point.learning_rate());
  const double chosen = tuning.points[*tuning.best].learning_rate();
  const TuningCost cost = cost_of(by_rate);
  return {{"grid", grid},
          {"seeds", tuning.seeds},
          {"trials", cost.trials},
          {"goal", tuning.goal.text()},
          {"validation", tuning.config["validation"]},
          {"validation_rows", tuning.dataset["validation"]["rows"]},
          {"learning_rate", chosen},
          {"edge_of_grid", chosen == grid.front() || chosen == grid.back()},
          {"samples_count", cost.samples_count},
          {"train_s", cost.train_s},
          {"file_hash", hash_of(tuning, grid, by_rate)}};
}

json note_of_run(json note, const json& trials, const json& config) {
  // A final run changes its seed, its data, its budget and its measurements.
  static const std::set<std::string> kFree = {"learning_rate",   "seed",         "test",
                                              "validation",      "cache",        "target",
                                              "epochs",          "max_samples",  "max_time",
                                              "stop_at_target",  "record_steps", "evaluate_every",
                                              "evaluate_samples"};
  note["differs"] = json::array();
  for (const auto& [key, value] : config.items()) {
    if (!kFree.contains(key) && (!trials.contains(key) || trials[key] != value)) {
      note["differs"].push_back(key);
    }
  }
  return note;
}

json tuning_json(std::span<const Tuning> tunings, const json& args) {
  json cells = json::array();
  TuningCost cost;
  for (const Tuning& tuning : tunings) {
    cells.push_back(cell_json(tuning));
    cost += cost_of(tuning.points);
  }
  json document = {{"schema_version", "2.0"},   {"kind", "tuning"},
                   {"tool", tool_json()},       {"args", args},
                   {"cells", std::move(cells)}, {"cost", cost_json(cost)}};
  escape_bytes(document);
  return document;
}

json read_tuned(const std::string& path, const std::string& algorithm) {
  const json document = read_json(path);
  if (const std::string kind = other_kind(document); kind != "tuning") {
    refuse(path, kind.empty() ? "a file of another kind" : "a " + kind, "a tuning",
           "hetsgd tune -o FILE writes one", ExitCode::data);
  }
  check_fields(path, document, {"schema_version text"});
  const std::string version = document["schema_version"];
  if (!version.starts_with("2.")) {
    refuse(
        path + ": schema_version", quote(version), "2.0",
        "the same hetsgd tune with --resume, or the same hetsgd sweep, makes the file again from "
        "its trials",
        ExitCode::data);
  }
  check_fields(path, document, {"cells list", "cells[].algorithm text"});
  std::vector<std::string> names;
  std::vector<std::size_t> found;
  for (const json& cell : document["cells"]) {
    if (cell["algorithm"] == algorithm) found.push_back(names.size());
    names.push_back(cell["algorithm"]);
  }
  if (found.empty()) refuse(path, "no tuning of " + algorithm, "one of " + alternatives(names));
  if (found.size() > 1) {
    refuse(path, fmt::format("{} tunings of {}", found.size(), algorithm), "one",
           "a sweep writes each of them to a file of its own in FOLDER/tunings");
  }
  const json& cell = document["cells"][found.front()];
  const std::string place = fmt::format("{}: cells[{}]", path, found.front());
  check_fields(place, cell, {"config object?", "chosen object?", "note object?"});
  if (cell.value("chosen", json()).is_null()) {
    throw with_hint(usage_error("{}: no trial of {} completed", path, algorithm),
                    "tune with smaller learning rates");
  }
  if (cell.value("note", json()).is_null()) {
    refuse(place, "a choice of other options", "one of the learning rate alone",
           "its key `chosen` has the values to give to train");
  }
  check_fields(
      place, cell,
      {"config object", "note.grid list", "note.grid[] number", "note.seeds list",
       "note.seeds[] count", "note.trials count", "note.goal text", "note.validation number",
       "note.validation_rows count", "note.learning_rate number", "note.edge_of_grid boolean",
       "note.samples_count count", "note.train_s number", "note.file_hash text"});
  return cell;
}

}  // namespace hetsgd
