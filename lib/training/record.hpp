// The record of one run: plain data, filled by training/, turned into JSON by result/.
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

namespace hetsgd {

// One evaluation. Metrics that do not apply to the task are empty.
struct CurvePoint {
  Seconds time{0};                  // training clock
  std::uint64_t samples_count = 0;  // samples learnt from, all workers
  double epoch_num = 0;             // samples_count / rows
  std::uint64_t updates =
      0;  // model updates (ssgd: one per iteration; local steps: one per step of each replica)
  double train_loss = 0;  // mean over the batches since the last point; NaN at the first point
  double test_loss = 0;
  std::optional<double> p1, p3, p5;  // multilabel
  std::optional<double> accuracy;    // multiclass and binary
  std::optional<double> auc;         // binary
};

// A target such as p1>=0.6.
struct Target {
  std::string metric;    // "p1", "p3", "p5", "accuracy", "auc", "test_loss"
  bool at_least = true;  // false: <= (losses)
  double value = 0;
  std::string text() const;  // "p1>=0.6"
};
// Every metric that some data have, the most telling first.
const std::vector<std::string>& metric_names();
// Errors: usage, naming `place`.
Target parse_target(const std::string& text, const std::string& place);
// The target's metric at a point; empty if it does not apply.
std::optional<double> metric_of(const CurvePoint& point, const std::string& metric);
bool reached(const Target& target, double value);

struct WorkerRecord {
  WorkerReport report;           // rank, device, ledger
  std::uint64_t shard_rows = 0;  // rows that it draws from; partition shared: all
  std::uint64_t samples = 0;
  std::uint64_t updates = 0;
};

// Host seconds; they add up to the wall time of a real run. Under `sim` train_s is what the
// simulation took.
struct PhaseTimes {
  double load_s = 0, init_s = 0, train_s = 0, eval_s = 0, record_s = 0;
};

enum class Status { running, completed, target_reached, diverged, aborted, failed, time_limit };
std::string to_string(Status status);

std::string utc_now();  // ISO 8601

struct Record {
  nlohmann::json config;  // OptionSet::to_json(): complete
  LoadReport train_report, test_report;
  DatasetPtr train, test;
  std::string cluster;
  bool virtual_time = false;
  nlohmann::json device_profile, network, charge;  // sim: what was charged; null otherwise
  nlohmann::json machine;                          // mpi: hosts with their ranks; null otherwise
  std::vector<std::string> stragglers;             // with defaults filled in
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
