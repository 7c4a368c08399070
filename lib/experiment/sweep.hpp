// Carries out a sweep: the trials of its tunings, then its final runs. Each runs once, even if
// several processes work on the sweep.
//
//   trials ──all ended──> choices ─> final runs
//     ^                      │
//     └─ widen: trials beyond the best value of an option that is the smallest or largest tried
//
// A run is claimed (sweep_folder.hpp), then carried out by a process of its own (worker_pool.hpp)
// that writes its result. Then a line is appended to the index. Runs that were done before are
// skipped, and failed ones run again. Simulated runs go side by side; a run in real time has the
// host to itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/host.hpp"
#include "experiment/sweep_folder.hpp"
#include "experiment/sweep_plan.hpp"
#include "experiment/tuning.hpp"

namespace hetsgd {

struct SweepOptions {
  int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int jobs = cores;         // simulated runs side by side, which share the cores
  std::uint64_t retry = 0;  // how often a failed run is retried
  bool fail_fast = false;   // the first failure ends the sweep
  std::optional<Seconds> max_wall = {};
  std::size_t shard = 0, shards = 1;  // this process runs every shards-th final run
  bool redact = false;
};

struct SweepProgress {
  SweepStage stage = SweepStage::final;
  std::size_t done = 0, all = 0, failed = 0, running = 0;
  std::optional<Seconds> remaining;  // none: nothing is known yet
};

struct FailedRun {
  PlannedRun run;
  std::string reason;
};

struct SweepHooks {
  std::function<void(const SweepProgress&)> on_progress;  // called often
  std::function<void(const FailedRun&)> on_failure;       // after its last repetition
  std::function<void(const PlannedRun&, const nlohmann::json& result)> on_done;
  const std::atomic<int>* signal = nullptr;
};

enum class SweepEnd { completed, failed, aborted, time_limit };

class Sweep {
 public:
  Sweep(SweepPlan& plan, const SweepFolder& folder, SweepOptions options);

  // Runs the sweep. Throws an Error of data or files that concerns the whole sweep. A run that
  // fails is not an error.
  SweepEnd run(const SweepHooks& hooks);

  const std::vector<FailedRun>& failures() const { return failures_; }
  const std::vector<Tuning>& tunings() const { return tunings_; }
  std::size_t runs_done() const { return runs_done_; }  // runs done by this process

  // {id, stage, setup, case, parameters, seed} and, after a tuning, {tuned} of a run.
  nlohmann::json about(const PlannedRun& run) const;
  // For each run, whether it has a result and need not be run. This follows from the index if the
  // file is unchanged since its line, else from the result itself. A single run is always looked up
  // in its result. With `remember`, the index is updated. A result with an older tuning, as after
  // an extended grid, then gets the present one.
  std::vector<bool> find_done(const std::vector<PlannedRun>& runs, bool remember) const;
  // Plans further trials beyond the best values of the trials, which must all have ended
  // (SweepPlan::widen). False: none are needed.
  bool widen_tunings();
  // Evaluates the trials, which must all have ended, and plans the final runs. Throws
  // Error(runtime) if a cell with final runs has no trial that ended well.
  void conclude_tuning();
  // Writes all tunings to one file, for readers. Writes each tuning of a learning rate to a file of
  // its own as well, for the commands of final runs. That file stays when the tuning is extended.
  void write_tunings() const;
  // The command line of a run in a process of its own: launcher, program, arguments, output. Throws
  // Error(usage) if a placeholder cannot be filled in.
  std::vector<std::string> command_of(const PlannedRun& run, bool resume) const;

 private:
  friend class StageRunner;  // stage_runner.cpp
  // Carries out the runs of a stage of the sweep that began at `start`.
  SweepEnd run_stage(const std::vector<PlannedRun>& runs, const SweepHooks& hooks,
                     HostClock::time_point start);
  bool is_done_by_result(const PlannedRun& run, const std::string& file, bool remember) const;
  // The tuning of a final run's learning rate; null: none.
  const Tuning* tuning_of(const PlannedRun& run) const;
  // The `tuning` entry for the result of a run with this config, as `hetsgd train --tuned` writes
  // it; null: none.
  nlohmann::json tuning_of_result(const PlannedRun& run, const nlohmann::json& config) const;
  void add_to_index(const PlannedRun& run, const nlohmann::json& result) const;
  void add_failure(FailedRun failure);
  TrialOutcome outcome_of(const nlohmann::json& result, const PlannedRun& run,
                          const Goal& goal) const;
  // The outcomes of the trials of every tuned cell, and their choices.
  std::vector<Tuning> judge_trials() const;

  SweepPlan& plan_;
  const SweepFolder& folder_;
  SweepOptions options_;
  std::vector<Tuning> tunings_;
  std::vector<FailedRun> failures_;
  std::size_t runs_done_ = 0;
};

}  // namespace hetsgd
