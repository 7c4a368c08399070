#include "result/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/bytes.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "result/environment.hpp"
#include "result/redact.hpp"
#include "result/time_to_accuracy.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

json seconds(Seconds time) { return time.count(); }

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json dataset_json(const DatasetPtr& data, const LoadReport& report) {
  if (!data) return nullptr;
  return {{"name", data->name},
          {"path", report.path},
          {"format", to_string(report.format)},
          {"index_base", to_string(report.index_base)},
          {"task", to_string(data->task)},
          {"rows", data->totals().rows},
          {"features", data->feature_count},
          {"labels", data->label_count},
          {"nonzeros", data->totals().nonzeros},
          {"content_hash", fmt::format("xxh3:{:016x}", data->content_hash)},
          {"file_bytes", report.file_bytes},
          {"rows_without_labels", report.rows_without_labels},
          {"rows_without_features", report.rows_without_features}};
}

json loading_json(const LoadReport& report) {
  return {{"load_s", report.seconds},
          {"from_cache", report.from_cache},
          {"cache_note", text_or_null(report.cache_note)}};
}

// The metrics of a point that apply to the task.
json metrics_json(const CurvePoint& point) {
  json metrics = {{"test_loss", point.test_loss}};
  for (const char* name : {"p1", "p3", "p5", "accuracy", "auc"}) {
    if (const auto value = metric_of(point, name)) metrics[name] = *value;
  }
  return metrics;
}

json point_json(const CurvePoint& point, bool first) {
  json result = metrics_json(point);
  result["time_s"] = seconds(point.time);
  result["samples_count"] = point.samples_count;
  result["epoch_num"] = point.epoch_num;
  result["updates"] = point.updates;
  result["train_loss"] = point.train_loss;
  if (first && std::isnan(point.train_loss)) {
    result["train_loss"] = nullptr;
    result["train_loss_reason"] = "no batch yet";
  }
  return result;
}

// Where a worker that is a process of its own ran.
json place_json(const WorkerReport& report) {
  return {{"host", report.host},
          {"pid", report.pid},
          {"cores", report.cores},
          {"clock_offset_s", seconds(report.clock_offset)}};
}

json bytes_by_kind(const std::array<std::uint64_t, 3>& bytes) {
  json result = json::object();
  for (std::size_t i = 0; i < bytes.size(); ++i) result[std::string(kTrafficNames[i])] = bytes[i];
  return result;
}

json gpu_buffers_json(const Ledger& ledger) {
  json result = json::object();
  for (std::size_t i = 0; i < kGpuPathNames.size(); ++i) {
    result[std::string(kGpuPathNames[i])] = ledger.gpu_buffers[i];
  }
  return result;
}

std::uint64_t total(const std::array<std::uint64_t, 3>& bytes) {
  return bytes[0] + bytes[1] + bytes[2];
}

// The list is by rank; a worker that has not reported yet has an empty record.
json worker_json(const WorkerRecord& worker, std::size_t rank) {
  const Ledger& ledger = worker.report.ledger;
  return {{"rank", rank},
          {"device", worker.report.device},
          {"compute_s", seconds(ledger.compute)},
          {"communicate_s", seconds(ledger.communicate)},
          {"wait_s", seconds(ledger.wait)},
          {"delay_requested_s", seconds(ledger.delay_requested)},
          {"delay_achieved_s", seconds(ledger.delay_achieved)},
          {"steps", ledger.steps},
          {"shard_rows", worker.shard_rows},
          {"samples", worker.samples},
          {"updates", worker.updates},
          {"bytes_sent", total(ledger.bytes_sent)},
          {"bytes_received", total(ledger.bytes_received)},
          {"bytes_sent_by_kind", bytes_by_kind(ledger.bytes_sent)},
          {"bytes_received_by_kind", bytes_by_kind(ledger.bytes_received)}};
}

std::vector<Evaluation> evaluations(const Record& record, const std::string& metric) {
  std::vector<Evaluation> result;
  for (const CurvePoint& point : record.curve) {
    if (const auto value = metric_of(point, metric)) {
      result.push_back({point.time.count(), point.samples_count, point.updates, *value});
    }
  }
  return result;
}

json histograms_json(const Record& record) {
  json histograms = json::object();
  for (const auto& [name, counts] : record.histograms) {
    json& histogram = histograms[name] = json::object();
    for (const auto& [value, count] : counts) histogram[std::to_string(value)] = count;
  }
  return histograms;
}

json targets_json(const Record& record) {
  json result = json::array();
  for (const Target& target : record.targets) {
    const TimeToAccuracy found =
        time_to_accuracy(evaluations(record, target.metric), target.at_least, target.value);
    json entry = {{"target", target.text()},
                  {"metric", target.metric},
                  {"at_least", target.at_least},
                  {"value", target.value},
                  {"time_s", nullptr},
                  {"samples_count", nullptr},
                  {"updates", nullptr},
                  {"smoothed_time_s", nullptr},
                  {"status", found.first ? "reached" : "not_reached"}};
    if (found.first) {
      entry["time_s"] = found.first->time_s;
      entry["samples_count"] = found.first->samples_count;
      entry["updates"] = found.first->updates;
    }
    if (found.smoothed) entry["smoothed_time_s"] = found.smoothed->time_s;
    result.push_back(std::move(entry));
  }
  return result;
}

// The best value of every metric, and when it was first measured.
json best_json(const Record& record) {
  json result = json::object();
  for (const char* metric : {"test_loss", "p1", "p3", "p5", "accuracy", "auc"}) {
    const bool smaller_is_better = std::string_view(metric) == "test_loss";
    const Evaluation* best = nullptr;
    const std::vector<Evaluation> all = evaluations(record, metric);
    for (const Evaluation& each : all) {
      if (!std::isfinite(each.value)) continue;
      if (!best || (smaller_is_better ? each.value < best->value : each.value > best->value)) {
        best = &each;
      }
    }
    if (!best) continue;
    result[metric] = {{"value", best->value},
                      {"time_s", best->time_s},
                      {"samples_count", best->samples_count},
                      {"updates", best->updates}};
  }
  return result;
}

json summary_json(const Record& record) {
  const CurvePoint last = record.curve.empty() ? CurvePoint{} : record.curve.back();
  const double elapsed_s = std::max(record.elapsed, last.time).count();
  double compute_s = 0;
  std::uint64_t sent = 0, received = 0;
  for (const WorkerRecord& worker : record.workers) {
    compute_s += worker.report.ledger.compute.count();
    sent += total(worker.report.ledger.bytes_sent);
    received += total(worker.report.ledger.bytes_received);
  }
  const double worker_s = elapsed_s * static_cast<double>(record.workers.size());
  json result = {{"elapsed_s", elapsed_s},
                 {"evaluations", record.curve.size()},
                 {"samples_count", last.samples_count},
                 {"epoch_num", last.epoch_num},
                 {"updates", last.updates},
                 {"samples_per_s", nullptr},
                 {"computing_ratio", nullptr},
                 {"bytes_sent", sent},
                 {"bytes_received", received},
                 {"final", nullptr},
                 {"best", best_json(record)}};
  if (elapsed_s > 0) {
    result["samples_per_s"] = static_cast<double>(last.samples_count) / elapsed_s;
  }
  if (worker_s > 0) result["computing_ratio"] = compute_s / worker_s;
  if (!record.curve.empty()) result["final"] = metrics_json(last);
  return result;
}

json wall_json(const Record& record) {
  const PhaseTimes& phases = record.phases;
  return {
      {"load_s", phases.load_s},
      {"init_s", phases.init_s},
      {"train_s", phases.train_s},
      {"eval_s", phases.eval_s},
      {"record_s", phases.record_s},
      {"total_s", phases.load_s + phases.init_s + phases.train_s + phases.eval_s + phases.record_s},
      {"loading",
       {{"train", loading_json(record.train_report)}, {"test", loading_json(record.test_report)}}}};
}

json environment_of(const Record& record) {
  json environment = hetsgd::environment_json();
  environment["evaluation_device"] = text_or_null(record.evaluation_device);
  return environment;
}

json curve_json(const Record& record) {
  json curve = json::array();
  for (std::size_t i = 0; i < record.curve.size(); ++i) {
    curve.push_back(point_json(record.curve[i], i == 0));
  }
  return curve;
}

bool is_long_list(const json& value) {
  return value.is_array() && !value.empty() && value.front().is_structured();
}

}  // namespace

json result_json(const Record& record, const ResultOptions& options) {
  json workers = json::array();
  for (std::size_t rank = 0; rank < record.workers.size(); ++rank) {
    workers.push_back(worker_json(record.workers[rank], rank));
    const WorkerReport& report = record.workers[rank].report;
    if (!report.host.empty()) workers.back().update(place_json(report));
    const auto& gpu_buffers = report.ledger.gpu_buffers;
    if (std::ranges::any_of(gpu_buffers, [](std::uint64_t n) { return n > 0; })) {
      workers.back()["gpu_buffers"] = gpu_buffers_json(report.ledger);
    }
  }
  json result = {
      {"schema_version", result_schema_version()},
      {"tool",
       {{"name", "hetsgd"},
        {"version", version()},
        {"git_revision", git_revision()},
        {"git_dirty", git_dirty()}}},
      {"args", json_text(options.args)},
      {"config", record.config},
      {"tuning", options.tuning},
      {"environment", environment_of(record)},
      {"dataset",
       {{"train", dataset_json(record.train, record.train_report)},
        {"test", dataset_json(record.test, record.test_report)}}},
      {"model", {{"layer_sizes", record.layer_sizes}, {"parameters", record.parameters}}},
      {"cluster",
       {{"name", record.cluster},
        {"virtual_time", record.virtual_time},
        {"device_profile", record.device_profile},
        {"network", record.network},
        {"charge", record.charge}}},
      {"stragglers", record.stragglers},
      {"workers", std::move(workers)},
      {"curve", curve_json(record)},
      {"events", record.events},
      {"histograms", histograms_json(record)},
      {"time_to_accuracy", targets_json(record)},
      {"summary", summary_json(record)},
      {"wall", wall_json(record)},
      {"warnings", record.warnings},
      {"status", to_string(record.status)},
      {"status_reason", text_or_null(record.status_reason)},
      {"started_at", text_or_null(record.started_at)},
      {"finished_at", text_or_null(record.finished_at)}};
  if (!record.machine.is_null()) result["cluster"]["machine"] = record.machine;
  if (options.redact) redact(result);
  explain_nonfinite(result);
  escape_bytes(result);
  return result;
}

std::string result_text(const json& result) {
  std::string text = "{";
  const char* separator = "\n";
  for (const auto& [key, value] : result.items()) {
    text += fmt::format("{}{}: ", separator, json(key).dump());
    separator = ",\n";
    if (!is_long_list(value)) {
      text += value.dump();
      continue;
    }
    const char* inner = "[\n  ";
    for (const json& element : value) {
      text += inner;
      text += element.dump();
      inner = ",\n  ";
    }
    text += "]";
  }
  return text + "\n}\n";
}

}  // namespace hetsgd
