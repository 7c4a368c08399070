// Record: the result of one run as training makes it. Recorded calls are a Trace (cluster/trace/),
// and no part of it. It is plain data that training/ fills and result/ turns into JSON.
//
// The record has no lock of its own. Training fills it before and after the run. From the
// construction of the referee to the end of the run it belongs to the referee. All other code then
// reads or changes it under the referee's lock. It is written to the result file after every point,
// and is then valid and complete up to there. Times in Seconds are of the training clock, doubles
// named _s are wall-clock time of the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "cluster/cluster.hpp"
#include "cluster/trace/trace.hpp"
#include "core/host.hpp"
#include "core/units.hpp"
#include "data/load.hpp"
#include "model/metric.hpp"
#include "training/plugins.hpp"
#include "training/segments.hpp"
#include "training/target.hpp"

namespace hetsgd {

// One evaluation. The first point of a curve is the initial model, at time 0 and 0 samples; times
// and samples never fall from one to the next.
struct CurvePoint {
  Seconds time{0};                  // training clock
  std::uint64_t samples_count = 0;  // samples learnt from, all workers
  double epoch_num = 0;             // samples_count / rows
  std::uint64_t updates =
      0;  // model updates (ssgd: one per iteration; local steps: one per step of each replica)
  std::uint64_t bytes_sent = 0;  // by all workers, as reported when the point was measured
  double train_loss = 0;  // mean over the losses since the last point; NaN at the first point
  // No batch was reported since the last point, so train_loss is NaN although nothing has diverged.
  // This happens at the end of asynchronous runs, where two measurements follow each other.
  bool no_batch = false;
  std::vector<MetricValue> metrics;  // that apply to the data, the most informative first
  // Total time to make the measured models up to this one. It is wall-clock time, or in sim the
  // charged time (RunRules::prepare_pass).
  Seconds prepare{0};
  // Begin and end of the measurement, in wall-clock seconds since the training data were first
  // read.
  double measure_begin_s = 0, wall_s = 0;

  double test_loss() const;  // NaN: not measured
};

// The quality of a prediction that is the same for every row, namely the base rates. The metrics
// use those of the measured rows, train_loss those of the training rows (NaN: not known).
struct ConstantGuess {
  std::vector<MetricValue> metrics;
  double train_loss = std::numeric_limits<double>::quiet_NaN();
};

// The value of a metric at a point, train_loss included (NaN at the first point); empty if it does
// not apply.
std::optional<double> metric_of(const CurvePoint& point, const std::string& metric);
// The main metric that improves upwards (P@1, else accuracy); empty if only losses apply.
std::optional<double> accuracy_of(const CurvePoint& point);

// The totals of one worker since the start of the run. Under mpi they are those of its last report.
struct WorkerRecord {
  WorkerReport report;           // rank, device, breakdown
  std::uint64_t shard_rows = 0;  // rows that it draws from; all with partition shared
  std::uint64_t samples = 0;
  std::uint64_t updates = 0;
  LookupCounts lookups;  // in sharded tables
  StageTimes stages;     // zero unless the algorithm keeps them
  // The workers that this one waited for, the longest wait first; set with --trace. While the main
  // process waits for its own background tasks, their waits count. Three kinds of waits are in no
  // list: those for the worker's own device, sleeps, and waits that no message, call or collective
  // explains.
  std::optional<std::vector<WaitedFor>> waited_for = {};
};

// Wall-clock seconds since the training data were first read. Under `sim` train_s is the run time
// of the simulation. load: reading the data; init: model, cluster, evaluator, until all processes
// are ready; prepare: making the models to measure, with the clock stopped (mean of replicas,
// copies from GPUs); eval: measurements, the initial one too; record: writing the result meanwhile;
// checkpoint: saving the state of the run between two segments; train: the rest of the run.
//
//   loaded() ── init ──> begin_training() ── train ──> the end        prepare, eval, record inside
//
// Every moment belongs to one phase. Time outside of prepare, eval, record and checkpoint belongs
// to the current one of load, init and train. So the seven add up to total_s at every settle().
// Times of a run that was resumed are those of all its processes, without the time between them.
struct PhaseTimes {
  double load_s = 0, init_s = 0, train_s = 0, prepare_s = 0, eval_s = 0, record_s = 0;
  double checkpoint_s = 0;
  double total_s = 0;       // as of the last settle()
  double began_unix_s = 0;  // when the training data were first read, in seconds since 1970

  // The data are loaded, and reading them took `seconds`.
  void loaded(double seconds);
  // Init ends here.
  void begin_training();
  // Takes the time up to now into init_s or train_s, and into total_s.
  void settle();
  // Wall-clock time since the training data were first read.
  double wall_s(HostClock::time_point now) const;
  // Time within training that is not on the training clock.
  double off_clock_s() const { return prepare_s + eval_s + record_s + checkpoint_s; }
  double sum_s() const { return load_s + init_s + train_s + off_clock_s(); }
  // Loading adds the times of the processes before.
  void fields(Archive& fields);

 private:
  HostClock::time_point loaded_at_{};
  double own_load_s_ = 0;  // of this process
  double before_s_ = 0;    // total of the processes before
  bool training_ = false;
};

// The load of this host: the number of runnable threads beside those of the run.
struct HostLoad {
  double start = 0;
  std::optional<double> end{};  // none: the run has not ended, or was interrupted
  double idle_cores = 0;        // cores that the workers leave to others

  // Whether the workers had to share their cores. The tolerance of half a thread covers the
  // background load of any system.
  bool slows_down() const { return std::max(start, end.value_or(0)) > idle_cores + 0.5; }
};

// `running` is the status in a file that was written before the end. A run that ends other than
// completed or target_reached has a reason (status_reason) and the curve up to there.
enum class Status { running, completed, target_reached, diverged, aborted, failed, time_limit };
std::string to_string(Status status);

std::string utc_now();  // ISO 8601

// The loss of a worker (cluster/segment.hpp).
struct FailureRecord {
  int worker = 0;
  Seconds failed{0}, detected{0};
  std::optional<Seconds> returned{};  // none: it did not return in this run
  std::uint64_t lost_samples = 0;     // that it had learnt from since its last running()
  std::uint64_t redone_samples = 0;   // that the others had learnt from and learn from again
  double state_bytes = 0;             // that it got when it returned
  FailureMode mode = FailureMode::killed;

  static constexpr auto members() {
    using F = FailureRecord;
    return std::tuple(&F::worker, &F::failed, &F::detected, &F::returned, &F::lost_samples,
                      &F::redone_samples, &F::state_bytes, &F::mode);
  }
};

struct Record {
  nlohmann::json config;  // OptionSet::to_json(): complete
  std::vector<Plugin> plugins;
  LoadReport train_report, test_report;
  DatasetPtr train, test;
  std::string cluster;
  bool virtual_time = false;
  // sim: the profiles that the clock charged; null otherwise
  nlohmann::json device_profile, server_profile, network, charge;
  nlohmann::json machine;               // mpi: hosts with their ranks; null otherwise
  std::optional<HostLoad> load{};       // set in real time, if the system reports it
  std::vector<std::string> stragglers;  // specifications with their defaults filled in
  std::vector<std::uint64_t> layer_sizes;
  std::uint64_t parameters = 0;

  // The placement of sharded tables as describe_tables() of plan.hpp gives it; null: the tables are
  // replicated.
  nlohmann::json tables;

  // The library of networks trained on GPUs, such as "cuDNN 9.6.0"; empty: no such network.
  std::string convolution_library;
  std::string evaluation_device;  // where the last point was measured: "cpu", "cuda:0 (...)"
  ConstantGuess constant_guess;   // from the process that measures
  std::vector<CurvePoint> curve;
  std::vector<SegmentRecord> segments;  // those that have ended and were followed by another
  std::vector<FailureRecord> failures;
  nlohmann::json events = nlohmann::json::array();
  // Counts by value: "staleness" (iterations between read and apply), "contributors", ...
  Histograms histograms;
  std::vector<WorkerRecord> workers;
  std::vector<Target> targets;
  std::vector<std::string> warnings;
  PhaseTimes phases;
  Seconds elapsed{0};  // training clock at the end
  // sim with services: how long the link of their host was busy.
  Seconds server_link_busy{0};
  std::vector<std::string> remarks;  // by the algorithm, after the run
  Status status = Status::running;
  std::string status_reason;            // set if failed, diverged or aborted
  int signal = 0;                       // set if aborted
  std::string started_at, finished_at;  // ISO 8601, UTC
  std::vector<std::string> resumes;     // when a process went on from a saved state, likewise

  // Input tokens of a sample: the mean over the training rows, 0 if they are not of tokens.
  double tokens_per_sample() const;
  // The part of the record that a resumed run takes over.
  void fields(Archive& fields);
  void warn(const std::vector<std::string>& texts) {
    warnings.insert(warnings.end(), texts.begin(), texts.end());
  }
};

}  // namespace hetsgd
