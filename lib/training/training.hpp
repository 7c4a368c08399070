// Training is one run. It loads the data, builds the model, the cluster and the algorithm, drives
// them, measures off the clock, and returns the record. The loop around every algorithm is here and
// nowhere else.
//
//   Training(spec)  ── options resolved and checked; nothing is loaded
//        └ load()   ── data, model, sampler, plan complete
//            └ run()   prepare   initial parameters, cluster, evaluator, referee, watcher,
//                      |         the initial model is measured        all processes agree here
//                      drive     workers run the algorithm, one segment after the other, the
//                      |         watcher watches; then the status
//                      finish    the result is written a last time    all processes agree here
//
// The parts of a run are made in that order and destroyed in reverse order, because each refers to
// those before it. Errors of prepare and finish are thrown on all processes alike. Errors while the
// workers run become the record's status.
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

// The progress of a run, for a progress line. Any worker's thread may fill it.
struct Progress {
  Seconds time{0};           // training clock
  double host_s = 0;         // wall-clock time of training here, without measuring and recording
  double share_before = 0;   // share_done() where this process went on from a checkpoint
  double measuring_s = 0;    // wall-clock time of the running measurement; 0: none
  double measurement_s = 0;  // mean wall-clock time of a measurement and its recording so far
  double measurements_left = 0;  // after the current one
  std::uint64_t samples_count = 0;
  double tokens_per_sample = 0;   // 0: samples are no tokens
  std::uint64_t max_samples = 0;  // 0: no such budget
  Seconds max_time{0};            // 0: no such budget
  double epoch_num = 0;
  std::uint64_t updates = 0;
  double train_loss = 0;                   // mean over the losses since the last evaluation
  std::optional<CurvePoint> last;          // last evaluation
  int slowest_rank = 0, fastest_rank = 0;  // by compute seconds per step so far
  double slowest_step_s = 0, fastest_step_s = 0;

  // The used share of the budget that will end first; 0 without a budget.
  double share_done() const;
  // Throughput on the training clock, which stands still while the model is measured.
  double samples_per_s() const;
  // Wall-clock time to the end of the budget, for training at the pace so far and for the remaining
  // measurements. None until this process has used a share of the budget.
  std::optional<Seconds> remaining() const;
};

// The hooks that a run calls. They may be called on any of its threads, and with the referee's lock
// held where the record is passed. So they must not call back into the run.
struct TrainHooks {
  // Called after every evaluation and at the end, off the clock, to write the result. Its time is
  // record_s.
  std::function<void(const Record&)> on_record{};
  // Called at most once per `progress_every` of wall-clock time. The training clock goes on
  // meanwhile, so it must be quick.
  std::function<void(const Progress&)> on_progress{};
  // Filled with the activity of this process's workers; null: no trace.
  Trace* trace = nullptr;
  // Set by a signal handler. The run is then aborted.
  const std::atomic<int>* signal = nullptr;
  // Raised by a signal handler, which asks for a checkpoint at the next evaluation.
  const std::atomic<int>* checkpoint_signal = nullptr;
};

// The specification of a run. The objects that it refers to must outlive the run.
struct RunSpec {
  const TrainOptions& options;
  const OptionSet& set;  // declares `options` and the algorithm's own
  std::shared_ptr<Algorithm> algorithm;
  AlgorithmInfo info;
};

// A run with everything resolved and nothing loaded. This is the plan that --dry-run prints and
// that run() runs. One object is one run: load() and run() are called once each. Under mpi every
// process makes one and makes the same calls.
class Training {
 public:
  explicit Training(const RunSpec& spec);
  ~Training();

  // Takes the data from `cache`, or reads them for this run alone. Throws Error(data) if they
  // cannot be read, Error(usage) for a target on a metric that these data do not have.
  void load(DataCache* cache = nullptr);
  // The same with data that were loaded before, by load_run_data() of the same data options.
  void load(const RunData& data);
  // Parameters, memory in bytes, and the work of one step of a worker without stragglers. They are
  // computed by arithmetic alone, after load() and without a trial. plan_of_run (estimate.hpp) adds
  // the time.
  nlohmann::json estimate() const;
  // Runs to the end. An error in the run becomes the record's status (diverged, aborted, failed
  // with the error's text); the caller decides about the exit code. `failure` carries the exception
  // of a failed run.
  const Record& run(const TrainHooks& hooks);
  std::exception_ptr failure() const;
  // Valid as long as this object. Other threads must not read it during run().
  const Record& record() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
