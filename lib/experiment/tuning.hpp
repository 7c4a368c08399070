// The choice of a learning rate for each algorithm with equal budgets: the same grid, the same
// seeds and the same held-out rows for everybody, and the whole cost beside the choice.
//
// This is the record of such a tuning and its file (tuning_schema.json). sweep_tuning.cpp fills it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/trial.hpp"
#include "result/validate.hpp"

namespace hetsgd {

// "0.03,0.1,0.3" or FROM:TO:COUNT, COUNT values from FROM to TO with equal ratios, those between
// rounded to three significant digits. Ascending. Errors: usage, naming `place`: what is no
// positive number, a value that occurs twice.
std::vector<double> parse_grid(const std::string& text, const std::string& place);

// One run of one algorithm with one learning rate.
struct Trial : TrialOutcome {
  double learning_rate = 0;
};

struct AlgorithmTuning {
  std::string algorithm;
  nlohmann::json config;  // of its trials, without learning_rate and seed
  std::vector<Trial> trials;
  TuningCost cost() const;
  const Trial* find(double learning_rate, std::uint64_t seed) const;  // null: not run yet
};

struct Tuning {
  Goal goal;
  std::vector<double> grid;  // ascending
  std::vector<std::uint64_t> seeds;
  double validation = 0;   // share of the training rows
  nlohmann::json dataset;  // {train, validation}: {rows, content_hash}; null: not loaded yet
  std::vector<AlgorithmTuning> algorithms;

  bool complete(const AlgorithmTuning& tuning) const;  // every trial was run
};

// None: trials of this learning rate are missing.
std::optional<Score> score(const Tuning& tuning, const AlgorithmTuning& algorithm,
                           double learning_rate);

struct Choice {
  double learning_rate = 0;
  bool edge_of_grid = false;  // the best lies at an end of the grid: a better one may lie beyond
  Score score;
};

// The best learning rate of the grid: by median over the seeds of the time to the target, then of
// the final value; equal ones: the smaller rate. A trial that diverged or failed counts as worst.
// None: trials are missing, or no rate has a finite median.
std::optional<Choice> choose(const Tuning& tuning, const AlgorithmTuning& algorithm);

// The file, and back. tuning_of expects a valid document.
nlohmann::json tuning_json(const Tuning& tuning, const std::vector<std::string>& args);
Tuning tuning_of(const nlohmann::json& document);

// "xxh3:..." of what decided about an algorithm: goal, grid, seeds, data, and how its trials ended.
// Simulated trials have the same hash whenever and wherever they are run, since times of the host do
// not count.
std::string tuning_hash(const Tuning& tuning, const AlgorithmTuning& algorithm);

// Whether a JSON document is (meant as) such a file: its `kind` is tuning.
bool is_tuning(const nlohmann::json& document);
// The JSON Schema (draft 7) of the file.
std::string_view tuning_schema();
// What is wrong with it, beyond the schema: a choice or a cost that its own trials contradict.
std::vector<Finding> validate_tuning(const nlohmann::json& document);
// Reads the file. Errors: data.
nlohmann::json read_tuning(const std::string& path);

// What a result says about where its learning rate comes from: {grid, seeds, trials, goal,
// validation, validation_rows, learning_rate, edge_of_grid, samples_count, train_s, differs,
// file_hash}. `differs` are the options in which `config`, of the run, departs from that of the
// trials, apart from those that a measurement has to change; file_hash is the tuning_hash. Errors:
// usage, naming `place` (the algorithm was not tuned, its trials are not complete, none of them
// ended well).
nlohmann::json tuning_of_run(const Tuning& tuning, const nlohmann::json& config,
                             const std::string& place);

}  // namespace hetsgd
