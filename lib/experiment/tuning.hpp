// The choice of a learning rate for each algorithm with equal budgets. All algorithms have the same
// grid, the same seeds and the same held-out rows, and the total cost is recorded with the choice.
//
// This file defines the record of such a tuning and its JSON (scripts/hetsgd/schemas/tuning.json).
// sweep.cpp fills it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "training/record.hpp"

namespace hetsgd {

// Trials are runs that decide between settings, whichever options are tuned. The rules that turn a
// run into a trial's outcome, and outcomes into the best settings, are here and nowhere else.

// A goal decides between trials: the final value of a metric, or the time to a target. Where
// times are equal, and where no trial reaches the target, the final value decides.
struct Goal {
  std::string metric;
  std::optional<Target> target;
  bool larger_is_better() const;
  std::string text() const;  // "p1" or "p1>=0.6"
};
// Parses "METRIC" or a target. Throws Error(usage) naming `place`.
Goal parse_goal(const std::string& text, const std::string& place);

// How a trial ended.
struct TrialOutcome {
  std::uint64_t seed = 0;
  std::string status;                      // as in a result; diverged and failed are worst
  std::string status_reason;               // reason of the status, or ""
  std::optional<double> value;             // final value of the metric; none: diverged, failed
  std::optional<double> time_to_target_s;  // none: no target, missed, diverged or failed
  std::uint64_t samples_count = 0;
  double train_s = 0;  // training clock
  double wall_s = 0;   // wall-clock time of the whole trial
};

// The outcome of a run as a trial, by its result.
TrialOutcome judge(const nlohmann::json& result, const Goal& goal);

using Trials = std::vector<TrialOutcome>;  // with the same settings, one for each seed

// Medians over trials with the same settings.
struct Score {
  double value = 0;             // infinite: the worst (diverged or failed)
  double time_to_target_s = 0;  // infinity: missed, or the goal is no target
};
// The score of at least one trial. A trial that diverged or failed counts as worst.
Score score_of(const Goal& goal, std::span<const TrialOutcome> trials);
// "p1 0.6110, p1>=0.55 after 1.6 s": the score of trials that did not all diverge or fail.
std::string outcome_text(const Goal& goal, std::span<const TrialOutcome> trials);
// The index of the best score, by time to the target and then by final value; the first of equal
// ones. None if no value is finite.
std::optional<std::size_t> best_of(const Goal& goal, std::span<const Score> scores);
// Warns if the trials of a choice miss the target of the goal, so that their final values decided.
// `what` names what was tuned.
void warn_of_missed_target(const Goal& goal, std::span<const TrialOutcome> chosen,
                           std::string_view what);

struct TuningCost {
  std::uint64_t trials = 0;
  std::uint64_t samples_count = 0;
  double train_s = 0, wall_s = 0;
  TuningCost& operator+=(const TuningCost& other);
};
TuningCost cost_of(const std::vector<Trials>& all);

// Parses "0.03,0.1,0.3" or FROM:TO:COUNT, which is COUNT values from FROM to TO with equal ratios.
// Inner values are rounded to three significant digits. The result is ascending. Throws
// Error(usage) naming `place` for values that are not positive numbers or occur twice.
std::vector<double> parse_grid(const std::string& text, const std::string& place);

struct AlgorithmTuning {
  std::string algorithm;
  nlohmann::json config;       // config of its trials, without learning_rate and seed
  std::vector<Trials> trials;  // by learning rate of the grid
};

struct Tuning {
  Goal goal;
  std::vector<double> grid;  // ascending
  std::vector<std::uint64_t> seeds;
  double validation = 0;   // share of the training rows
  nlohmann::json dataset;  // {train, validation}: {rows, content_hash}; null: not loaded yet
  std::vector<AlgorithmTuning> algorithms;

  bool complete(const AlgorithmTuning& tuning) const;  // whether every trial was run
};

struct Choice {
  std::size_t place = 0;  // index into the grid
  double learning_rate = 0;
  bool edge_of_grid = false;  // the best rate is an end of the grid, so a better one may lie beyond
};

// The best learning rate of the grid, by the median time to the target over the seeds, then by the
// median final value. Among equal ones the smallest rate is taken. A trial that diverged or failed
// counts as worst. None if trials are missing, or no rate has a finite median.
std::optional<Choice> choose(const Tuning& tuning, const AlgorithmTuning& algorithm);

// {seed, status, status_reason, value, time_to_target_s, samples_count, train_s, wall_s}
nlohmann::json trial_json(const TrialOutcome& trial);
nlohmann::json cost_json(const TuningCost& cost);
// Convert a tuning to the document of its file, and back. tuning_of() expects a document that fits
// the schema. Errors: data, for trials that neither grid nor seeds name.
nlohmann::json tuning_json(const Tuning& tuning, const std::vector<std::string>& args);
Tuning tuning_of(const nlohmann::json& document);

// The hash "xxh3:..." of all that determined an algorithm's choice: goal, grid, seeds, data, and
// the outcomes of its trials. Wall-clock times do not count, so simulated trials have the same hash
// in every run, and on every processor whose vectors are as wide.
std::string tuning_hash(const Tuning& tuning, const AlgorithmTuning& algorithm);

// Whether a JSON document is a tuning, valid or not, by its `kind`.
bool is_tuning(const nlohmann::json& document);
// Reads a tuning file, and checks the fields that tuning_of() takes. Throws Error(data).
nlohmann::json read_tuning(const std::string& path);

// The note in a result about the origin of its learning rate: {grid, seeds, trials, goal,
// validation, validation_rows, learning_rate, edge_of_grid, samples_count, train_s, differs,
// file_hash}. `differs` are the options in which `config` of the run differs from the trials,
// except those that every final run changes. file_hash is the tuning_hash. Errors: usage, naming
// `place` (the algorithm was not tuned, its trials are not complete, none of them ended well).
nlohmann::json tuning_of_run(const Tuning& tuning, const nlohmann::json& config,
                             const std::string& place);

}  // namespace hetsgd
