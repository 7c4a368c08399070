// One run: loads the data, builds the model, the cluster and the algorithm, drives them, measures
// off the clock, and returns the record. The loop around every algorithm is here and nowhere else.
//
//   Training(spec)  ── options resolved and checked; nothing is loaded
//        └ load()   ── data, model, sampler, plan complete
//            └ run()   prepare   initial parameters, cluster, evaluator, referee, watcher,
//                      |         the initial model is measured        all processes agree here
//                      drive     workers run the algorithm, the watcher watches; then the status
//                      finish    the result is written a last time    all processes agree here
//
// What a run needs is made in that order and destroyed in the other: each part refers to those
// before it. Errors of prepare and finish are thrown, on all processes alike; what goes wrong
// while the workers run becomes the record's status.
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

class Trace;  // cluster/trace/trace.hpp

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

// Called by the run. They may be called on any of its threads, with the referee's lock held where
// the record is passed: they must not call back into the run.
struct TrainHooks {
  // After every evaluation (and at the end), off the clock; its time is record_s. Used to write the
  // result.
  std::function<void(const Record&)> on_record{};
  // At most every `progress_every` of host time, off no clock: must be quick.
  std::function<void(const Progress&)> on_progress{};
  // Filled with what the workers of this process do; null: nobody asks.
  Trace* trace = nullptr;
  // Set by a signal handler: the run ends at the next step with status aborted.
  const std::atomic<int>* signal = nullptr;
};

// What to run. What it refers to must outlive the run.
struct RunSpec {
  const TrainOptions& options;
  const OptionSet& set;  // declares `options` and the algorithm's own
  std::shared_ptr<Algorithm> algorithm;
  AlgorithmInfo info;
};

// Everything resolved, nothing loaded: the plan that --dry-run prints and that run() runs. One
// object is one run: load() and run() once each. Under mpi every process makes one and calls the
// same.
class Training {
 public:
  explicit Training(const RunSpec& spec);
  ~Training();

  // Takes the data from `cache`, or reads them for this run alone. Errors: data; usage (a target on
  // a metric that these data do not have).
  void load(DataCache* cache = nullptr);
  // The same with these data: load_run_data of the same data options.
  void load(const RunData& data);
  // By arithmetic alone, without a trial. After load(): parameters, memory in bytes and the work of
  // one step of a worker without stragglers. plan_of_run (estimate.hpp) adds the time.
  nlohmann::json estimate() const;
  // Runs to the end. What goes wrong in the run becomes the record's status (diverged, aborted,
  // failed with the error's text); the caller decides about the exit code. `failure` carries the
  // exception of a failed run.
  const Record& run(const TrainHooks& hooks);
  std::exception_ptr failure() const;
  // Good as long as this object; not to be read by others during run().
  const Record& record() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
