// The record of one run: plain data, filled by training/, turned into JSON by result/.
//
// Not guarded by itself. Training fills it before the run and after it; from the making of the
// referee to the end of the run it is the referee's, under whose lock everybody else changes or
// reads it. It is written to the result's file after every point, so it is valid and complete as
// far as the run has come at any of those moments. Times are of the training clock where they are
// Seconds of the run, and of the host where they are doubles named _s.
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
#include "core/host_clock.hpp"
#include "core/units.hpp"
#include "data/load.hpp"
#include "model/metric.hpp"
#include "training/plugins.hpp"
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
  std::uint64_t bytes_sent = 0;  // by all workers, as far as each had reported when it was measured
  double train_loss = 0;  // mean over the batches since the last point; NaN at the first point
  // No batch was reported since the last point, as at the end of asynchronous runs, where two
  // measurements follow each other: train_loss is NaN, and nothing has diverged.
  bool no_batch = false;
  std::vector<MetricValue> metrics;  // that apply to the data, the most telling first
  // What making the models that were measured so far took, this one's included: host time, in sim
  // what was charged for it (RunRules::prepare_pass).
  Seconds prepare{0};
  // Begin and end of the measurement, in host time since the first touch of the training data.
  double measure_begin_s = 0, wall_s = 0;

  double test_loss() const;  // NaN: not measured
};

// What a prediction comes to that is the same for every row: the base rates of the measured rows.
// Metrics as those of a point; train_loss by the base rates of the training rows, NaN: not known.
struct ConstantGuess {
  std::vector<MetricValue> metrics;
  double train_loss = std::numeric_limits<double>::quiet_NaN();
};

// The value of a metric at a point, train_loss included (NaN at the first point); empty if it does
// not apply.
std::optional<double> metric_of(const CurvePoint& point, const std::string& metric);
// The value that counts most where more is better (P@1, else accuracy); empty: only losses apply.
std::optional<double> accuracy_of(const CurvePoint& point);

// What one worker did, totals from the start of the run. Under mpi as of its last report.
struct WorkerRecord {
  WorkerReport report;           // rank, device, breakdown
  std::uint64_t shard_rows = 0;  // rows that it draws from; partition shared: all
  std::uint64_t samples = 0;
  std::uint64_t updates = 0;
  LookupCounts lookups;  // in sharded tables
  StageTimes stages;     // of algorithms that keep them
  // With --trace, the longest first. While the main process waits for its own background tasks, it
  // counts whom these wait for. Waits for its own device, sleeps, and waits that no message, call or
  // collective says the reason of are in nobody's list.
  std::optional<std::vector<WaitedFor>> waited_for = {};
};

// Host seconds since the first touch of the training data. Under `sim` train_s is what the
// simulation took. load: reading the data; init: model, cluster, evaluator, until all processes are
// ready; prepare: making the models that are measured, with the clock stopped (mean of replicas,
// copies from GPUs); eval: measurements, the initial one too; record: writing the result meanwhile;
// train: the rest of the run.
//
//   loaded() ── init ──> begin_training() ── train ──> the end        prepare, eval, record inside
//
// Every moment belongs to one phase: what prepare, eval and record have not taken is of the phase
// that runs. So the six add up to total_s at every settle().
struct PhaseTimes {
  double load_s = 0, init_s = 0, train_s = 0, prepare_s = 0, eval_s = 0, record_s = 0;
  double total_s = 0;       // as of the last settle()
  double began_unix_s = 0;  // the first touch of the training data, since 1970

  // The data are there, and reading them took so long.
  void loaded(double seconds);
  // Init ends here.
  void begin_training();
  // Takes the time up to now into init_s or train_s, and into total_s.
  void settle();
  // Host time since the first touch of the training data.
  double wall_s(HostClock::time_point now) const;
  // Within training, the clock stands for these.
  double off_clock_s() const { return prepare_s + eval_s + record_s; }
  double sum_s() const { return load_s + init_s + train_s + off_clock_s(); }

 private:
  HostClock::time_point loaded_at_{};
  bool training_ = false;
};

// How busy this host was: threads that wanted to run beside those of the run.
struct HostLoad {
  double start = 0;
  std::optional<double> end{};  // none: the run has not ended, or was interrupted
  double idle_cores = 0;        // that the workers leave to others

  // Whether the workers had to share their cores. Half a thread is what any system has at times.
  bool slows_down() const { return std::max(start, end.value_or(0)) > idle_cores + 0.5; }
};

// running: what a file shows that was written before the end. A run that ends in any other way than
// completed or target_reached has a reason (status_reason) and the curve up to there.
enum class Status { running, completed, target_reached, diverged, aborted, failed, time_limit };
std::string to_string(Status status);

std::string utc_now();  // ISO 8601

struct Record {
  nlohmann::json config;  // OptionSet::to_json(): complete
  std::vector<Plugin> plugins;
  LoadReport train_report, test_report;
  DatasetPtr train, test;
  std::string cluster;
  bool virtual_time = false;
  // sim: what was charged; null otherwise
  nlohmann::json device_profile, server_profile, network, charge;
  nlohmann::json machine;               // mpi: hosts with their ranks; null otherwise
  std::optional<HostLoad> load{};       // in real time, where the system says it
  std::vector<std::string> stragglers;  // with defaults filled in
  std::vector<std::uint64_t> layer_sizes;
  std::uint64_t parameters = 0;

  // Where the rows of sharded tables lie: describe_tables() of plan.hpp; null: they are
  // replicated.
  nlohmann::json tables;

  // Of networks trained on GPUs: "cuDNN 9.6.0"; empty: no such.
  std::string convolution_library;
  std::string evaluation_device;  // where the last point was measured: "cpu", "cuda:0 (...)"
  ConstantGuess constant_guess;   // of the process that measures
  std::vector<CurvePoint> curve;
  nlohmann::json events = nlohmann::json::array();
  // Counts by value: "staleness" (iterations between read and apply), "contributors", ...
  Histograms histograms;
  std::vector<WorkerRecord> workers;
  std::vector<Target> targets;
  std::vector<std::string> warnings;
  PhaseTimes phases;
  Seconds elapsed{0};  // training clock at the end
  // sim, where there are services: for how long the link of their host was taken.
  Seconds server_link_busy{0};
  std::vector<std::string> remarks;  // of the algorithm, after the run
  Status status = Status::running;
  std::string status_reason;            // of failed, diverged, aborted
  int signal = 0;                       // of aborted
  std::string started_at, finished_at;  // ISO 8601, UTC

  void warn(const std::vector<std::string>& texts) {
    warnings.insert(warnings.end(), texts.begin(), texts.end());
  }
};

}  // namespace hetsgd
