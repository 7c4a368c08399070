// Runs the trials of a tuning: every algorithm with every learning rate and seed, on the same rows,
// with the same budget, from data that are loaded once. Trials in simulated time go side by side,
// those in real time one after another.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/host_clock.hpp"
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
  int jobs = 1;                      // trials side by side, where time is simulated
  bool redact = false;               // leave the folders of paths out of the record
};

struct TunerHooks {
  // After every trial, which stands in `algorithm` then.
  std::function<void(const AlgorithmTuning& algorithm, const Trial& trial)> on_trial;
  std::function<void(const Progress&)>
      on_progress;  // as in TrainHooks, of the only trial under way
  std::function<void(std::size_t trials)> on_running;  // of several under way, often: how many
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
  // Runs what is left. A trial that diverges or fails counts as worst and stops nothing; those that
  // a signal or --time-limit (host time of the tuning) cuts off are dropped. The record is the same
  // for any number of jobs, but for host times. Errors: of the device or communicator; runtime, a
  // trial's process that leaves no result.
  TunerEnd run(const TunerHooks& hooks);

  const Tuning& tuning() const { return tuning_; }

 private:
  struct Pending {
    std::string algorithm;
    double rate = 0;
    std::uint64_t seed = 0;
  };
  std::vector<Pending> pending() const;  // in the order of algorithms, grid and seeds
  ConfiguredRun trial_of(const Pending& trial) const {
    return {trial.algorithm, settings_of(trial)};
  }
  std::vector<Setting> settings_of(const Pending& trial) const;
  AlgorithmTuning* find(const std::string& algorithm);
  const AlgorithmTuning* find(const std::string& algorithm) const;
  TunerEnd run_in_turn(const TunerHooks& hooks);
  TunerEnd run_side_by_side(const TunerHooks& hooks);
  // What ends the tuning before a trial begins; shortens the trial's --time-limit by the time that
  // has passed since `start`. None: nothing.
  static std::optional<TunerEnd> cut_off(TrainOptions& trial, HostClock::time_point start,
                                         const TunerHooks& hooks);
  // Keeps the trial, unless it was cut off, which ends the tuning.
  TunerEnd take(const Pending& pending, const nlohmann::json& result, double wall_s,
                const TunerHooks& hooks);

  TunerOptions options_;
  Tuning tuning_;
  DataCache data_;
};

}  // namespace hetsgd
