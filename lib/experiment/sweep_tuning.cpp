// What a sweep makes of its trials.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "core/error.hpp"
#include "core/json_file.hpp"
#include "data/source.hpp"
#include "experiment/run_identity.hpp"
#include "experiment/spec_settings.hpp"
#include "experiment/sweep.hpp"
#include "result/output.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

TrialOutcome outcome_of(const std::string& file, std::uint64_t seed, const Goal& goal) {
  if (std::filesystem::exists(file)) {
    const json result = read_json(file);
    if (is_done(result["status"])) return judge(result, goal);
  }
  TrialOutcome failed;
  failed.seed = seed;
  failed.status = "failed";
  failed.status_reason = "there is no result";
  return failed;
}

json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

json trial_json_of(const TrialOutcome& trial, const std::string& id) {
  return {{"id", id},
          {"seed", trial.seed},
          {"status", trial.status},
          {"value", number_or_null(trial.value)},
          {"time_to_target_s", number_or_null(trial.time_to_target_s)},
          {"samples_count", trial.samples_count},
          {"train_s", trial.train_s},
          {"wall_s", trial.wall_s}};
}

// The options whose best value is the first or last of their lists of numbers.
std::vector<std::string> edges_of(const SearchSpace& space, const Candidate& best) {
  std::vector<std::string> edges;
  for (const SearchAxis& axis : space.axes) {
    if (axis.names.size() != 1 || axis.rows.empty() || !axis.rows.front().front().is_number()) {
      continue;
    }
    const Setting* const chosen = find_setting(best.point, axis.names.front());
    const auto order = [](const auto& a, const auto& b) { return a.front() < b.front(); };
    const auto [low, high] = std::minmax_element(axis.rows.begin(), axis.rows.end(), order);
    const bool at_edge =
        chosen != nullptr && (chosen->value == low->front() || chosen->value == high->front());
    if (at_edge) edges.push_back(axis.names.front());
  }
  return edges;
}

}  // namespace

void Sweep::conclude_tuning() {
  const SweepSpec& spec = plan_.spec();
  Choices choices(spec.cells.size());
  tunings_.clear();
  std::vector<std::vector<PlannedRun>> trials(spec.cells.size());
  for (const PlannedRun& run : plan_.trials()) trials[run.cell].push_back(run);
  for (std::size_t cell = 0; cell < spec.cells.size(); ++cell) {
    if (!plan_.is_tuned(cell)) continue;
    const SetupSpec& setup = spec.setups[spec.cells[cell].setup];
    const std::vector<Candidate>& candidates = plan_.candidates(SweepStage::tuning, cell);
    CellTuning tuning{.cell = cell,
                      .trials = {},
                      .scores = {},
                      .best = {},
                      .edges = {},
                      .cost = {},
                      .of_results = nullptr};
    tuning.trials.resize(candidates.size());
    for (const PlannedRun& run : trials[cell]) {
      tuning.trials[run.candidate].push_back(
          outcome_of(folder_.result_file(run), run.seed, *setup.goal));
      tuning.cost.add(tuning.trials[run.candidate].back());
    }
    for (const auto& each : tuning.trials) tuning.scores.push_back(score_of(*setup.goal, each));
    tuning.best = best_of(*setup.goal, tuning.scores);
    if (!tuning.best) {
      throw with_hint(
          runtime_failure(
              "{}: no trial of {} ended well", spec.path,
              spec.title(spec.cells[cell]).empty() ? "the tuning" : spec.title(spec.cells[cell])),
          "tune with smaller learning rates");
    }
    tuning.edges = edges_of(setup.tuning->space, candidates[*tuning.best]);
    choices[cell] = candidates[*tuning.best].point;
    tuning.of_results = tuning_of_results(tuning);
    tunings_.push_back(std::move(tuning));
  }
  plan_.plan_final_runs(choices);
}

void Sweep::write_tunings() const {
  if (tunings_.empty()) return;
  const SweepSpec& spec = plan_.spec();
  json cells = json::array();
  for (const CellTuning& tuning : tunings_) {
    const SweepCell& cell = spec.cells[tuning.cell];
    const SetupSpec& setup = spec.setups[cell.setup];
    const std::vector<Candidate>& all = plan_.candidates(SweepStage::tuning, tuning.cell);
    json candidates = json::array();
    for (std::size_t i = 0; i < all.size(); ++i) {
      json trials = json::array();
      for (const TrialOutcome& trial : tuning.trials[i]) {
        const std::uint64_t id = run_id(all[i].identity, trial.seed);
        trials.push_back(trial_json_of(trial, PlannedRun{.id = id}.name()));
      }
      candidates.push_back({{"parameters", all[i].parameters()},
                            {"value", number_or_null(tuning.scores[i].value)},
                            {"time_to_target_s", number_or_null(tuning.scores[i].time_to_target_s)},
                            {"trials", std::move(trials)}});
    }
    cells.push_back({{"setup", setup.name},
                     {"case", spec.cases[cell.method].name},
                     {"goal", setup.goal->text()},
                     {"seeds", setup.tuning->seeds},
                     {"candidates", std::move(candidates)},
                     {"chosen", all[*tuning.best].parameters()},
                     {"edges", tuning.edges},
                     {"cost",
                      {{"trials", tuning.cost.trials},
                       {"samples_count", tuning.cost.samples_count},
                       {"train_s", tuning.cost.train_s},
                       {"wall_s", tuning.cost.wall_s}}}});
  }
  const json document = {{"schema_version", "1.0"},
                         {"kind", "sweep tuning"},
                         {"name", spec.name},
                         {"cells", std::move(cells)}};
  write_result(folder_.tuning_file(), document);
}

json Sweep::tuning_of_results(const CellTuning& tuning) const {
  const SetupSpec& setup = plan_.spec().setups[plan_.spec().cells[tuning.cell].setup];
  const SearchSpace& space = setup.tuning->space;
  const bool rate_alone =
      space.axes.size() == 1 && space.axes[0].names == std::vector<std::string>{"learning_rate"} &&
      plan_.candidates(SweepStage::tuning, tuning.cell)[*tuning.best].point[0].value.is_number();
  json one;
  for (const PlannedRun& run : plan_.trials()) {
    const std::string file = folder_.result_file(run);
    if (run.cell == tuning.cell && one.is_null() && std::filesystem::exists(file)) {
      one = read_json(file);
    }
  }
  if (!rate_alone || one.is_null()) return nullptr;
  const std::vector<Candidate>& candidates = plan_.candidates(SweepStage::tuning, tuning.cell);
  std::vector<double> grid;
  std::string identities;
  for (const Candidate& each : candidates) {
    grid.push_back(each.point.front().value.get<double>());
    identities += fmt::format("{:016x}", each.identity);
  }
  std::ranges::sort(grid);
  static const std::set<std::string> kFree = {"seed",     "test",          "validation",
                                              "epochs",   "target",        "max_samples",
                                              "max_time", "stop_at_target"};
  std::set<std::string> differs;
  for (const Setting& each : setup.tuning->settings) {
    if (!kFree.contains(each.name)) differs.insert(each.name);
  }
  return {{"grid", grid},
          {"seeds", setup.tuning->seeds},
          {"trials", tuning.cost.trials},
          {"goal", setup.goal->text()},
          {"validation", one["config"]["validation"]},
          {"validation_rows", one["dataset"]["test"]["rows"]},
          {"learning_rate", candidates[*tuning.best].point.front().value.get<double>()},
          {"edge_of_grid", !tuning.edges.empty()},
          {"samples_count", tuning.cost.samples_count},
          {"train_s", tuning.cost.train_s},
          {"differs", differs},
          {"file_hash", fmt::format("xxh3:{:016x}", content_hash(identities))}};
}

json Sweep::tuning_of_result(const PlannedRun& run) const {
  const auto found = std::ranges::find(tunings_, run.cell, &CellTuning::cell);
  if (run.stage == SweepStage::tuning || found == tunings_.end()) return nullptr;
  json tuning = found->of_results;
  if (tuning.is_null()) return tuning;
  std::set<std::string> differs = tuning["differs"];
  for (const Setting& each : plan_.candidate(run).point) differs.insert(each.name);
  tuning["differs"] = differs;
  return tuning;
}

}  // namespace hetsgd
