// The conclusions that a sweep draws from its trials.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "experiment/run_identity.hpp"
#include "experiment/spec_settings.hpp"
#include "experiment/sweep.hpp"
#include "result/output.hpp"
#include "result/validate.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The result of a trial that has ended, well or badly; null: there is none.
json result_of_trial(const std::string& file) {
  if (!state_of(file)) return nullptr;
  try {
    json result = read_result(file);
    return is_done(result["status"]) ? result : json();
  } catch (const Error& error) {  // its run has failed, which is said elsewhere
    return nullptr;
  }
}

json number_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

// The options whose best value is the first or last of their lists of numbers.
std::vector<std::string> edges_of(const SearchSpace& space, const Candidate& best) {
  std::vector<std::string> edges;
  for (const SearchAxis& axis : space.axes) {
    if (axis.names.size() != 1 || axis.rows.empty() || !axis.rows.front().front().is_number()) {
      continue;
    }
    const Setting* const chosen = find_setting(best.point, axis.names.front());
    const auto order = [](const auto& a, const auto& b) { return a.front() < b.front(); };
    const auto [low, high] = std::ranges::minmax_element(axis.rows, order);
    const bool at_edge =
        chosen != nullptr && (chosen->value == low->front() || chosen->value == high->front());
    if (at_edge) edges.push_back(axis.names.front());
  }
  return edges;
}

double rate_of(const Candidate& candidate) { return candidate.point.front().value.get<double>(); }

}  // namespace

TrialOutcome Sweep::outcome_of(const json& result, const PlannedRun& run, const Goal& goal) const {
  if (!result.is_null()) return judge(result, goal);
  TrialOutcome failed;
  failed.seed = run.seed;
  failed.status = "failed";
  const auto why = std::ranges::find(failures_, run.id, [](const auto& f) { return f.run.id; });
  failed.status_reason = why == failures_.end() ? "there is no result" : why->reason;
  return failed;
}

void Sweep::conclude_tuning() {
  const SweepSpec& spec = plan_.spec();
  Choices choices(spec.cells.size());
  tunings_.clear();
  std::vector<std::vector<PlannedRun>> trials(spec.cells.size());
  for (const PlannedRun& run : plan_.trials()) trials[run.cell].push_back(run);
  for (std::size_t cell = 0; cell < spec.cells.size(); ++cell) {
    if (!plan_.is_tuned(cell)) continue;
    const SetupSpec& setup = spec.setup_of(cell);
    const std::vector<Candidate>& candidates = plan_.candidates(SweepStage::tuning, cell);
    CellTuning tuning;
    tuning.cell = cell;
    tuning.trials.resize(candidates.size());
    for (const PlannedRun& run : trials[cell]) {
      const json result = result_of_trial(folder_.result_file(run));
      tuning.trials[run.candidate].push_back(outcome_of(result, run, *setup.goal));
    }
    std::vector<Score> scores;
    for (const Trials& each : tuning.trials) scores.push_back(score_of(*setup.goal, each));
    tuning.best = best_of(*setup.goal, scores);
    const bool is_needed = !spec.seeds.empty();  // for final runs
    if (!tuning.best && is_needed) {
      const std::string title = spec.title(cell);
      throw with_hint(runtime_failure("{}: no trial of {} ended well", spec.path,
                                      title.empty() ? "the tuning" : title),
                      "tune with smaller learning rates");
    }
    record_tuning(trials[cell], tuning);
    if (tuning.best) {
      tuning.edges = edges_of(setup.tuning->space, candidates[*tuning.best]);
      choices[cell] = candidates[*tuning.best].point;
    }
    tunings_.push_back(std::move(tuning));
  }
  plan_.plan_final_runs(choices);
}

void Sweep::write_tunings() const {
  if (tunings_.empty()) return;
  const SweepSpec& spec = plan_.spec();
  const auto file_of = [&](const CellTuning& tuning) {
    return fs::path(folder_.tuned_file(tuning.hash))
        .lexically_relative(fs::absolute(folder_.path()))
        .string();
  };
  json cells = json::array();
  for (const CellTuning& tuning : tunings_) {
    if (tuning.record) {
      write_result(folder_.tuned_file(tuning.hash), tuning_json(*tuning.record, {}));
    }
    const SetupSpec& setup = spec.setup_of(tuning.cell);
    const std::vector<Candidate>& all = plan_.candidates(SweepStage::tuning, tuning.cell);
    json candidates = json::array();
    for (std::size_t i = 0; i < all.size(); ++i) {
      json trials = json::array();
      for (const TrialOutcome& trial : tuning.trials[i]) {
        const std::uint64_t id = run_id(all[i].identity, trial.seed);
        trials.push_back(trial_json(trial));
        trials.back()["id"] = PlannedRun{.id = id}.name();
      }
      const Score score = score_of(*setup.goal, tuning.trials[i]);
      candidates.push_back({{"parameters", all[i].parameters()},
                            {"value", number_or_null(score.value)},
                            {"time_to_target_s", number_or_null(score.time_to_target_s)},
                            {"trials", std::move(trials)}});
    }
    cells.push_back({{"setup", setup.name},
                     {"case", spec.case_of(tuning.cell).name},
                     {"goal", setup.goal->text()},
                     {"seeds", setup.tuning->seeds},
                     {"candidates", std::move(candidates)},
                     {"chosen", tuning.best ? all[*tuning.best].parameters() : json()},
                     {"edges", tuning.edges},
                     {"file", tuning.record ? json(file_of(tuning)) : json(nullptr)},
                     {"cost", cost_json(cost_of(tuning.trials))}});
  }
  const json document = {{"schema_version", "1.0"},
                         {"kind", "sweep tuning"},
                         {"name", spec.name},
                         {"cells", std::move(cells)}};
  write_result(folder_.tuning_file(), document);
}

// With its record a tuning chooses as `hetsgd tune` does, also between equal learning rates.
void Sweep::record_tuning(const std::vector<PlannedRun>& trials, CellTuning& tuning) const {
  const SetupSpec& setup = plan_.spec().setup_of(tuning.cell);
  const std::vector<Candidate>& candidates = plan_.candidates(SweepStage::tuning, tuning.cell);
  const auto has_rate_alone = [](const Candidate& each) {
    return each.point.size() == 1 && each.point[0].name == "learning_rate" &&
           each.point[0].value.is_number();
  };
  if (!std::ranges::all_of(candidates, has_rate_alone)) return;
  json one;  // what all trials have in common
  for (std::size_t i = 0; i < trials.size() && one.is_null(); ++i) {
    one = result_of_trial(folder_.result_file(trials[i]));
  }
  if (one.is_null()) return;
  Tuning record;
  record.goal = *setup.goal;
  record.seeds = setup.tuning->seeds;
  record.validation = one["config"]["validation"];
  for (const auto& [name, part] : {std::pair("train", "train"), std::pair("validation", "test")}) {
    const json& data = one["dataset"][part];
    record.dataset[name] = {{"rows", data["rows"]}, {"content_hash", data["content_hash"]}};
  }
  AlgorithmTuning& algorithm = record.algorithms.emplace_back();
  algorithm.algorithm = one["config"]["algorithm"];
  algorithm.config = one["config"];
  algorithm.config.erase("learning_rate");
  algorithm.config.erase("seed");
  std::map<double, std::size_t> by_rate;
  for (std::size_t i = 0; i < candidates.size(); ++i) by_rate[rate_of(candidates[i])] = i;
  for (const auto& [rate, candidate] : by_rate) {
    record.grid.push_back(rate);
    algorithm.trials.push_back(tuning.trials[candidate]);
  }
  if (const auto choice = choose(record, algorithm)) {
    tuning.best = by_rate.at(choice->learning_rate);
  }
  tuning.hash = tuning_hash(record, algorithm);
  tuning.record = std::move(record);
}

const CellTuning* Sweep::tuning_of(const PlannedRun& run) const {
  const auto found = std::ranges::find(tunings_, run.cell, &CellTuning::cell);
  return run.stage == SweepStage::tuning || found == tunings_.end() ? nullptr : &*found;
}

json Sweep::tuning_of_result(const PlannedRun& run, const json& config) const {
  const CellTuning* const tuning = tuning_of(run);
  if (tuning == nullptr || !tuning->record) return nullptr;
  return tuning_of_run(*tuning->record, config, plan_.spec().path);
}

}  // namespace hetsgd
