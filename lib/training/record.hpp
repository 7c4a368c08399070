// The record of one run: plain data, filled by training/, turned into JSON by result/.
//
// Not guarded by itself. Training fills it before the run and after it; from the making of the
// referee to the end of the run it is the referee's, under whose lock everybody else changes or
// reads it. It is written to the result's file after every point, so it is valid and complete as
// far as the run has come at any of those moments. Times are of the training clock where they are
// Seconds of the run, and of the host where they are doubles named _s.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "core/units.hpp"
#include "data/load.hpp"
#include "model/metric.hpp"
#include "training/plugins.hpp"

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
  std::vector<MetricValue> metrics;  // that apply to the data, the most telling first

  double test_loss() const;  // NaN: not measured
};

// A target such as p1>=0.6.
struct Target {
  std::string metric;    // its key: "p1", "test_loss"
  bool at_least = true;  // false: <= (losses)
  double value = 0;
  std::string text() const;  // "p1>=0.6"
};
// Errors: usage, naming `place`.
Target parse_target(const std::string& text, const std::string& place);
// The value of a metric at a point, train_loss included (NaN at the first point); empty if it does
// not apply.
std::optional<double> metric_of(const CurvePoint& point, const std::string& metric);
// The value that counts most where more is better (P@1, else accuracy); empty: only losses apply.
std::optional<double> accuracy_of(const CurvePoint& point);
// Bounds included. NaN reaches nothing.
bool reached(const Target& target, double value);

// What one worker did, totals from the start of the run. Under mpi as of its last report.
struct WorkerRecord {
  WorkerReport report;           // rank, device, breakdown
  std::uint64_t shard_rows = 0;  // rows that it draws from; partition shared: all
  std::uint64_t samples = 0;
  std::uint64_t updates = 0;
};

// Host seconds; they add up to the wall time of a real run. Under `sim` train_s is what the
// simulation took. load: reading the data; init: model, cluster, evaluator; eval: measurements, the
// initial one too; record: writing the result meanwhile; train: the rest of the run.
struct PhaseTimes {
  double load_s = 0, init_s = 0, train_s = 0, eval_s = 0, record_s = 0;
  double total_s() const { return load_s + init_s + train_s + eval_s + record_s; }
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
  std::vector<std::string> stragglers;  // with defaults filled in
  std::vector<std::uint64_t> layer_sizes;
  std::uint64_t parameters = 0;

  std::string evaluation_device;  // where the last point was measured: "cpu", "cuda:0 (...)"
  std::vector<CurvePoint> curve;
  nlohmann::json events = nlohmann::json::array();
  // Counts by value: "staleness" (iterations between read and apply), "contributors", ...
  std::map<std::string, std::map<std::int64_t, std::uint64_t>> histograms;
  std::vector<WorkerRecord> workers;
  std::vector<Target> targets;
  std::vector<std::string> warnings;
  PhaseTimes phases;
  Seconds elapsed{0};  // training clock at the end
  Status status = Status::running;
  std::string status_reason;            // of failed, diverged, aborted
  int signal = 0;                       // of aborted
  std::string started_at, finished_at;  // ISO 8601, UTC
};

}  // namespace hetsgd
