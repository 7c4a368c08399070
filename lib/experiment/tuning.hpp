// The choice between settings with equal budgets. All methods have the same settings to choose
// from, the same seeds and the same held-out rows. The total cost is recorded with the choice.
//
//   results of trials ─judge─> outcomes ─best_of─> choice ─note_of─> note ─tuning_json─> file
//                                                                                         │
//                                      result of a run at that learning rate <─read_tuned─┘
//
// This file defines the record of such a tuning and its JSON (scripts/hetsgd/schemas/tuning.json),
// which `tune` and `sweep` write and `train --tuned` reads. sweep.cpp fills it.
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
  std::string id;  // of its run
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

// A point of a tuning: values of the tuned options, and the trials with them.
struct TriedPoint {
  nlohmann::json parameters;  // {option: value}
  Trials trials = {};         // one for each seed

  double learning_rate() const { return parameters["learning_rate"]; }  // if it is tuned
};

// A method's tuning; all its trials have ended.
struct Tuning {
  std::size_t cell = 0;  // index into SweepSpec::cells
  std::string setup = {}, case_name = {}, algorithm;
  Goal goal;
  std::vector<std::uint64_t> seeds;
  std::vector<TriedPoint> points = {};   // in the order of the plan
  std::optional<std::size_t> best = {};  // the chosen point; none: no trial ended well
  std::vector<std::string> edges = {};   // options whose best value is an end of its list
  // Options of the trials without seed and tuned ones, and {train, validation}: {rows,
  // content_hash} of their data. Null: no trial has a result.
  nlohmann::json config = nullptr, dataset = nullptr;
  nlohmann::json note = nullptr;  // note_of()

  std::string hash() const { return note["file_hash"]; }  // there is a note
};

// Medians over trials with the same settings.
struct Score {
  double value = 0;             // infinite: the worst (diverged or failed)
  double time_to_target_s = 0;  // infinity: missed, or the goal is no target
};
// The score of at least one trial. A trial that diverged or failed counts as worst.
Score score_of(const Goal& goal, std::span<const TrialOutcome> trials);
// "p1 0.6110, p1>=0.55 after 1.6 s": the score of trials that did not all diverge or fail.
std::string outcome_text(const Goal& goal, std::span<const TrialOutcome> trials);
// The index of the point with the best score, by time to the target and then by final value; the
// first of equal ones. None if no value is finite.
std::optional<std::size_t> best_of(const Goal& goal, std::span<const TriedPoint> points);
// Facts that a user should know before relying on a choice, a sentence each.
std::vector<std::string> warnings_of(const Tuning& tuning);

struct TuningCost {
  std::uint64_t trials = 0;
  std::uint64_t samples_count = 0;
  double train_s = 0, wall_s = 0;
  TuningCost& operator+=(const TuningCost& other);
};
TuningCost cost_of(std::span<const TriedPoint> points);

// Parses "0.03,0.1,0.3" or FROM:TO:COUNT, which is COUNT values from FROM to TO with equal ratios.
// Inner values are rounded to three significant digits. The result is ascending. Throws
// Error(usage) naming `place` for values that are not positive numbers or occur twice.
std::vector<double> parse_grid(const std::string& text, const std::string& place);

// The note for results about the origin of their learning rate: {grid, seeds, trials, goal,
// validation, validation_rows, learning_rate, edge_of_grid, samples_count, train_s, file_hash}.
// Null unless the learning rate alone was tuned, and one was chosen. file_hash is a hash
// "xxh3:..." of all that determined the choice: goal, grid, seeds, data, and the outcomes of the
// trials. Wall-clock times do not count, so simulated trials have the same hash in every run, and
// on every x86-64 processor with AVX2 (apps/hetsgd/README.md).
nlohmann::json note_of(const Tuning& tuning);
// The note in the result of a run: `note` and `differs`, the options in which `config` of the run
// differs from `trials`, the config of the trials, except those that every final run changes.
nlohmann::json note_of_run(nlohmann::json note, const nlohmann::json& trials,
                           const nlohmann::json& config);

// The document of tunings, which `args` of the program made.
nlohmann::json tuning_json(std::span<const Tuning> tunings, const nlohmann::json& args);
// The {config, note} of the tuning of an algorithm, from a file with this document. Throws
// Error(data) for another file or format, and Error(usage) if the file has no choice for the
// algorithm, or several.
nlohmann::json read_tuned(const std::string& path, const std::string& algorithm);

}  // namespace hetsgd
