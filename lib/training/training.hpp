// One run: loads the data, builds the model, the cluster and the algorithm, drives them, measures
// off the clock, and returns the record. The driver loop of every algorithm is here and nowhere
// else.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "core/options.hpp"
#include "training/record.hpp"
#include "training/run_data.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

class Trace;  // training/trace.hpp

// What is going on, for a progress line; filled from any worker's thread.
struct Progress {
  Seconds time{0};               // training clock
  double host_s = 0;             // since the start of training, without measuring and recording
  double measuring_s = 0;        // that the measurement under way has taken so far; 0: none is
  double measurement_s = 0;      // host time of one measurement, recorded: the mean so far
  double measurements_left = 0;  // after the one under way
  std::uint64_t samples_count = 0;
  std::uint64_t max_samples = 0;  // 0: not the budget
  Seconds max_time{0};            // 0: not the budget
  double epoch_num = 0;
  std::uint64_t updates = 0;
  double train_loss = 0;                   // of the batches since the last evaluation
  std::optional<CurvePoint> last;          // last evaluation
  int slowest_rank = 0, fastest_rank = 0;  // by compute seconds per step so far
  double slowest_step_s = 0, fastest_step_s = 0;

  // Of the budget that will end first; 0 without a budget.
  double share_done() const;
  // On the training clock, which stands still while the model is measured.
  double samples_per_s() const;
  // Host time to the end of the budget: training at the pace so far, and the measurements that are
  // still to come. None: nothing is known yet.
  std::optional<Seconds> remaining() const;
};

struct TrainHooks {
  // After every evaluation (and at the end), off the clock; its time is record_s. Used to write the
  // result.
  std::function<void(const Record&)> on_record;
  // At most every `progress_every` of host time, off no clock: must be quick.
  std::function<void(const Progress&)> on_progress;
  // Filled with what the workers of this process do; null: nobody asks.
  Trace* trace = nullptr;
  // Set by a signal handler: the run ends at the next step with status aborted.
  const std::atomic<int>* signal = nullptr;
};

// Everything resolved, nothing loaded: the plan that --dry-run prints and that train() runs.
class Training {
 public:
  // `options` and `set` (which declares them and the algorithm's own) must outlive this.
  Training(const TrainOptions& options, const OptionSet& set, std::shared_ptr<Algorithm> algorithm,
           const AlgorithmInfo& info);
  ~Training();

  // Reads the data. Errors: data; usage (a target on a metric that these data do not have).
  void load();
  // The same with data that were read before: load_run_data of the same data options.
  void load(const RunData& data);
  // After load(): parameters, memory in bytes and the work of one step of a worker without
  // stragglers. plan_of_run (estimate.hpp) adds the time.
  nlohmann::json estimate() const;
  // Runs to the end. What goes wrong in the run becomes the record's status (diverged, aborted,
  // failed with the error's text); the caller decides about the exit code. `failure` carries the
  // exception of a failed run.
  const Record& run(const TrainHooks& hooks);
  std::exception_ptr failure() const;
  const Record& record() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
