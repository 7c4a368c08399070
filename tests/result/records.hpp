// Records made by hand, for the tests of result/.
#pragma once

#include <cstdlib>
#include <fstream>

#include "result/result.hpp"
#include "support/dataset.hpp"
#include "training/record.hpp"

namespace hetsgd::test {

inline const Metric& metric_named(std::string_view key) {
  return **std::ranges::find(metrics(), key, [](const Metric* metric) { return metric->key(); });
}

// A curve with one evaluation per second and 100 samples, 10 updates between them.
inline std::vector<CurvePoint> curve_of(const std::vector<double>& p1) {
  std::vector<CurvePoint> curve;
  for (std::size_t i = 0; i < p1.size(); ++i) {
    CurvePoint point;
    point.time = Seconds(static_cast<double>(i));
    point.samples_count = 100 * i;
    point.epoch_num = static_cast<double>(i) / 10;
    point.updates = 10 * i;
    point.train_loss = i == 0 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    point.metrics = {{&metric_named("p1"), p1[i]}, {&metric_named(kTestLoss), 2.0}};
    curve.push_back(point);
  }
  return curve;
}

// A finished run of two workers on the curve of `p1`.
inline Record record_of(const std::vector<double>& p1, std::uint64_t seed = 1) {
  Record record;
  record.config = {{"algorithm", "adaptive"},  {"seed", seed}, {"train", "/data/train.txt"},
                   {"test", "/data/test.txt"}, {"workers", 2}, {"cluster", "sim"},
                   {"learning_rate", 0.5}};
  DatasetBuilder data = dataset_of(Task::multilabel, 2, 3);
  data.name = "hand";
  data.content_hash = 0x1234;
  add(data, 2, 1);
  end_row(data, {1});
  record.train = record.test = std::move(data).share();
  record.train_report.path = "/data/train.txt";
  record.test_report.path = "/data/test.txt";
  record.cluster = "sim";
  record.virtual_time = true;
  record.device_profile = {{"name", "v100"}};
  record.layer_sizes = {3, 2};
  record.parameters = 8;
  record.curve = curve_of(p1);
  const std::uint64_t samples = record.curve.empty() ? 0 : record.curve.back().samples_count;
  for (int rank = 0; rank < 2; ++rank) {
    WorkerRecord worker;
    worker.report.rank = rank;
    worker.report.device = "v100";
    worker.report.breakdown.compute = Seconds(1.5);
    worker.report.breakdown.bytes_sent = {100, 10, 1};
    worker.samples = samples / 2;
    record.workers.push_back(worker);
  }
  record.events.push_back({{"type", "merge"},
                           {"time_s", 1.0},
                           {"batch_size", {32, 16}},
                           {"learning_rate", {0.5, 0.25}},
                           {"updates", {5, 5}},
                           {"weight", {0.6, 0.4}},
                           {"norm", {0.1, 0.1}},
                           {"perturbed", false}});
  record.targets = {{"p1", true, 0.5}};
  record.elapsed = record.curve.empty() ? Seconds(0) : record.curve.back().time;
  record.status = Status::completed;
  record.started_at = "2026-01-01T00:00:00Z";
  record.finished_at = "2026-01-01T00:00:09Z";
  return record;
}

// The result of a record. It is also appended, as a line, to the file that HETSGD_TEST_RESULTS
// names: tests/judge/written_results_test.py validates all results that the tests here make.
inline nlohmann::json json_of(const Record& record) {
  nlohmann::json result = result_json(record, {.args = {"train", "--seed", "1"}, .redact = false});
  if (const char* const path = std::getenv("HETSGD_TEST_RESULTS")) {
    std::ofstream(path, std::ios::app) << result.dump() << "\n";
  }
  return result;
}

}  // namespace hetsgd::test
