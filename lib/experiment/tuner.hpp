// Runs the trials of a tuning: every algorithm with every learning rate and seed, on the same rows,
// with the same budget, from data that are loaded once.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiment/configured_run.hpp"
#include "experiment/tuning.hpp"
#include "training/training.hpp"

namespace hetsgd {

struct TunerOptions {
  std::vector<std::string> algorithms;
  std::optional<Goal> goal;          // none: the final value of the first metric that the data have
  std::vector<double> grid;          // ascending
  std::vector<std::uint64_t> seeds;  // at least one
  std::vector<Setting> settings;     // with a validation split
  bool redact = false;               // leave the folders of paths out of the record
};

struct TunerHooks {
  // After every trial, which is the last one of `algorithm`.
  std::function<void(const AlgorithmTuning& algorithm)> on_trial;
  std::function<void(const Progress&)> on_progress;  // as in TrainHooks, of the trial under way
  const std::atomic<int>* signal = nullptr;
};

enum class TunerEnd { completed, aborted, time_limit };

class Tuner {
 public:
  // Resolves every algorithm's options, so that mistakes show before anything is loaded. Errors:
  // usage.
  explicit Tuner(TunerOptions options);

  // Takes over the trials of an earlier tuning, also of algorithms that this one lacks; failed ones
  // are run again. Errors: usage, naming `place`, if goal, grid, seeds or an algorithm's options
  // differ; without a goal of its own it takes the earlier one.
  void resume(const Tuning& earlier, const std::string& place);
  std::size_t trials_left() const;

  // Reads the data. Errors: data; usage if resumed trials had other data, or if the goal's metric
  // is not measured on them.
  void load();
  // Runs what is left. A trial that diverges or fails counts as worst and stops nothing; one that a
  // signal or --time-limit (host time of all trials together) cuts off is dropped. Errors: of the
  // device or communicator.
  TunerEnd run(const TunerHooks& hooks);

  const Tuning& tuning() const { return tuning_; }

 private:
  ConfiguredRun trial_of(const std::string& algorithm, double rate, std::uint64_t seed) const;
  AlgorithmTuning* find(const std::string& algorithm);
  TunerEnd run_trial(AlgorithmTuning& algorithm, double rate, std::uint64_t seed,
                     const TunerHooks& hooks);

  TunerOptions options_;
  Tuning tuning_;
  DataCache data_;
  double spent_s_ = 0;  // host time, counts against --time-limit
};

}  // namespace hetsgd
