#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "result/formats.hpp"
#include "result/summary.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

class Log {
 public:
  explicit Log(const Record& record) : record_(record) {}

  // Adds a line at `wall_s` after the training data were first read, or in sim after the start of
  // the clock.
  void add(double wall_s, const char* type, const char* key, const json& value,
           const json& metadata) {
    nlohmann::ordered_json line;  // keys in the order of other logs
    line["namespace"] = "";
    line["time_ms"] = std::llround(1e3 * (record_.phases.began_unix_s + wall_s));
    line["event_type"] = type;
    line["key"] = key;
    line["value"] = value;
    line["metadata"] = metadata;
    text_ += ":::MLLOG " + line.dump() + "\n";
  }
  void point(double wall_s, const char* key, const json& value,
             const json& metadata = json::object()) {
    add(wall_s, "POINT_IN_TIME", key, value, metadata);
  }
  void start(double wall_s, const char* key, const json& metadata = json::object()) {
    add(wall_s, "INTERVAL_START", key, nullptr, metadata);
  }
  void stop(double wall_s, const char* key, const json& metadata = json::object()) {
    add(wall_s, "INTERVAL_END", key, nullptr, metadata);
  }
  double begin_of(const CurvePoint& point) const {
    return record_.virtual_time ? point.time.count() : point.measure_begin_s;
  }
  double end_of(const CurvePoint& point) const {
    return record_.virtual_time ? point.time.count() : point.wall_s;
  }
  const std::string& text() const { return text_; }

 private:
  const Record& record_;
  std::string text_;
};

void add_configuration(Log& log, const Record& record) {
  const json& config = record.config;
  const std::uint64_t updates = record.curve.empty() ? 0 : record.curve.back().updates;
  json global_batch = config.value("batch_size", json(nullptr));
  if (updates > 0) {
    global_batch = std::llround(static_cast<double>(record.curve.back().samples_count) /
                                static_cast<double>(updates));
  }
  const json name = record.train ? json(json_text(record.train->name)) : json(nullptr);
  log.point(0, "submission_benchmark", name);
  log.point(0, "seed", config.value("seed", json(nullptr)));
  log.point(0, "global_batch_size", global_batch);
  log.point(0, "opt_name", config.value("optimizer", json(nullptr)));
  log.point(0, "opt_base_learning_rate", config.value("learning_rate", json(nullptr)));
  if (record.train) log.point(0, "train_samples", record.train->totals().rows);
  if (record.test) log.point(0, "eval_samples", record.test->totals().rows);
}

void add_evaluation(Log& log, const CurvePoint& point) {
  const json place = {{"epoch_num", point.epoch_num}, {"samples_count", point.samples_count}};
  log.start(log.begin_of(point), "eval_start", place);
  json about = place, value = nullptr;
  if (!point.metrics.empty()) {
    about["metric"] = point.metrics.front().metric->key();
    if (std::isfinite(point.metrics.front().value)) value = point.metrics.front().value;
  }
  log.point(log.end_of(point), "eval_accuracy", value, about);
  log.stop(log.end_of(point), "eval_stop", place);
}

bool succeeded(const Record& record) {
  if (record.targets.empty()) return record.status == Status::completed;
  return summarise(record).reached_all_targets();
}

}  // namespace

std::string mllog_text(const Record& record) {
  Log log(record);
  add_configuration(log, record);
  log.start(0, "init_start");
  log.stop(0, "init_stop");
  log.start(0, "run_start");
  double end = 0;
  for (std::size_t i = 0; i < record.curve.size(); ++i) {
    const CurvePoint& point = record.curve[i];
    if (i > 0) {
      const CurvePoint& before = record.curve[i - 1];
      const json block = {{"first_epoch_num", before.epoch_num},
                          {"epoch_count", point.epoch_num - before.epoch_num},
                          {"samples_count", point.samples_count - before.samples_count}};
      log.start(end, "block_start", block);
      log.stop(log.begin_of(point), "block_stop", block);
    }
    add_evaluation(log, point);
    end = log.end_of(point);
  }
  const std::uint64_t samples = record.curve.empty() ? 0 : record.curve.back().samples_count;
  log.point(end, "samples_count", samples);
  log.stop(end, "run_stop",
           {{"status", succeeded(record) ? "success" : "aborted"}, {"samples_count", samples}});
  return log.text();
}

}  // namespace hetsgd
