#include "result/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "result/summary.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

json seconds(Seconds time) { return time.count(); }

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json dataset_json(const DatasetPtr& data, const LoadReport& report) {
  if (!data) return nullptr;
  json result = {{"name", data->name},
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
  if (const ImageShape shape = data->images.shape(); shape.size() > 0) {
    result["image"] = fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
  }
  if (data->sequences.numbers > 0) {
    result["frame_numbers"] = data->sequences.numbers;
    result["frames"] = data->totals().frames;
  }
  if (data->tokens.vocabulary > 0) {
    result["token_kinds"] = data->tokens.vocabulary;
    result["targets"] = data->totals().frames;
    result["target_bytes"] = data->totals().bytes;
  }
  if (data->fields.count() > 0) {
    result["dense_columns"] = data->dense.columns;
    result["fields"] = data->fields.count();
    result["categories"] = data->fields.first.back();
  }
  return result;
}

json loading_json(const LoadReport& report) {
  return {{"load_s", report.seconds},
          {"from_cache", report.from_cache},
          {"cache_note", text_or_null(report.cache_note)}};
}

json plugins_json(const std::vector<Plugin>& plugins) {
  json result = json::array();
  for (const Plugin& plugin : plugins) {
    result.push_back({{"name", plugin.name},
                      {"path", json_text(plugin.path)},
                      {"file_hash", plugin.hash_text()}});
  }
  return result;
}

json point_json(const CurvePoint& point, bool first, bool virtual_time) {
  json result = metrics_at(point);
  result["time_s"] = seconds(point.time);
  result["samples_count"] = point.samples_count;
  result["epoch_num"] = point.epoch_num;
  result["updates"] = point.updates;
  result["bytes_sent"] = point.bytes_sent;
  result["train_loss"] = point.train_loss;
  result["prepare_s"] = seconds(point.prepare);
  if (!virtual_time) result["wall_s"] = point.wall_s;
  if (std::isnan(point.train_loss) && (first || point.no_batch)) {
    result["train_loss"] = nullptr;
    result["train_loss_reason"] = first ? "no batch yet" : "no batch since the last measurement";
  }
  return result;
}

// The place of a worker that is a process of its own.
json place_json(const WorkerReport& report) {
  return {{"host", report.host},
          {"pid", report.pid},
          {"cores", report.cores},
          {"clock_offset_s", seconds(report.clock_offset)}};
}

// Kinds of traffic that only sharded tables have are left out if they are 0.
json bytes_by_kind(const TrafficBytes& bytes) {
  json result = json::object();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto kind = static_cast<Traffic>(i);
    const bool of_tables = kind == Traffic::rows || kind == Traffic::ids || kind == Traffic::input;
    if (bytes[i] == 0 && of_tables) continue;
    result[std::string(kTrafficNames[i])] = bytes[i];
  }
  return result;
}

json gpu_buffers_json(const TimeBreakdown& breakdown) {
  json result = json::object();
  for (std::size_t i = 0; i < kGpuPathNames.size(); ++i) {
    result[std::string(kGpuPathNames[i])] = breakdown.gpu_buffers[i];
  }
  return result;
}

json stages_json(const StageTimes& stages) {
  json result = json::object();
  for (std::size_t i = 0; i < kStageNames.size(); ++i) {
    result[fmt::format("{}_s", kStageNames[i])] = seconds(stages[static_cast<Stage>(i)]);
  }
  return result;
}

json waited_for_json(const std::vector<WaitedFor>& all) {
  json result = json::array();
  for (const WaitedFor& each : all) {
    json& entry = result.emplace_back(json{{"rank", nullptr}, {"wait_s", seconds(each.wait)}});
    if (each.rank >= 0) {
      entry["rank"] = each.rank;
    } else {
      entry["service"] = each.service;
    }
  }
  return result;
}

// A worker in the result. The rank is an argument, because a worker that has not reported yet has
// an empty record.
json worker_json(const WorkerRecord& worker, std::size_t rank) {
  const TimeBreakdown& breakdown = worker.report.breakdown;
  json result = {{"rank", rank},
                 {"device", worker.report.device},
                 {"compute_s", seconds(breakdown.compute)},
                 {"communicate_s", seconds(breakdown.communicate)},
                 {"wait_s", seconds(breakdown.wait)},
                 {"delay_requested_s", seconds(breakdown.delay_requested)},
                 {"delay_achieved_s", seconds(breakdown.delay_achieved)},
                 {"steps", breakdown.steps},
                 {"shard_rows", worker.shard_rows},
                 {"samples", worker.samples},
                 {"updates", worker.updates},
                 {"bytes_sent", total_bytes(breakdown.bytes_sent)},
                 {"bytes_received", total_bytes(breakdown.bytes_received)},
                 {"bytes_sent_by_kind", bytes_by_kind(breakdown.bytes_sent)},
                 {"bytes_received_by_kind", bytes_by_kind(breakdown.bytes_received)}};
  if (!worker.stages.empty()) result["stages"] = stages_json(worker.stages);
  if (!worker.report.host.empty()) result.update(place_json(worker.report));
  if (!worker.report.profile.empty()) result["profile"] = json_text(worker.report.profile);
  if (worker.waited_for) result["waited_for"] = waited_for_json(*worker.waited_for);
  if (std::ranges::any_of(breakdown.gpu_buffers, [](std::uint64_t n) { return n > 0; })) {
    result["gpu_buffers"] = gpu_buffers_json(breakdown);
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

json evaluation_json(const Evaluation& evaluation) {
  return {{"time_s", evaluation.time_s},
          {"samples_count", evaluation.samples_count},
          {"updates", evaluation.updates}};
}

json targets_json(const Summary& summary, const RunStart& start) {
  json result = json::array();
  for (const auto& [target, time] : summary.targets) {
    json entry = {{"target", target.text()},
                  {"metric", target.metric},
                  {"at_least", target.at_least},
                  {"value", target.value},
                  {"time_s", nullptr},
                  {"samples_count", nullptr},
                  {"updates", nullptr},
                  {"first_crossing_s", nullptr},
                  {"clocks", nullptr},
                  {"evaluation", nullptr},
                  {"resolution_s", nullptr},
                  {"judged_by", time.judged_by},
                  {"status", to_string(time.outcome())}};
    if (time.held) {
      entry.update(evaluation_json(*time.held));
      entry["clocks"] = clocks_json(*time.held, start);
      entry["evaluation"] = time.evaluation;
      entry["resolution_s"] = time.resolution_s;
    }
    if (time.first_crossing) entry["first_crossing_s"] = time.first_crossing->time_s;
    result.push_back(std::move(entry));
  }
  return result;
}

json summary_json(const Record& record, const Summary& summary) {
  json best = json::object();
  for (const auto& [metric, evaluation] : summary.best) {
    best[metric] = evaluation_json(evaluation);
    best[metric]["value"] = evaluation.value;
  }
  json result = {{"elapsed_s", summary.elapsed_s},
                 {"evaluations", record.curve.size()},
                 {"samples_count", summary.last.samples_count},
                 {"epoch_num", summary.last.epoch_num},
                 {"updates", summary.last.updates},
                 {"samples_per_s", nullptr},
                 {"computing_ratio", nullptr},
                 {"bytes_sent", summary.bytes_sent},
                 {"bytes_received", summary.bytes_received},
                 {"final", nullptr},
                 {"best", std::move(best)}};
  if (summary.samples_per_s) result["samples_per_s"] = *summary.samples_per_s;
  if (const double each = summary.tokens_per_sample; each > 0) {
    result["tokens"] = std::llround(each * static_cast<double>(summary.last.samples_count));
    result["tokens_per_s"] =
        summary.samples_per_s ? json(each * *summary.samples_per_s) : json(nullptr);
  }
  if (summary.computing_ratio) result["computing_ratio"] = *summary.computing_ratio;
  if (summary.server_link_ratio) result["server_link_ratio"] = *summary.server_link_ratio;
  if (!summary.final_metrics.empty()) result["final"] = summary.final_metrics;
  if (!summary.constant_guess.empty()) result["constant_guess"] = summary.constant_guess;
  return result;
}

json segments_json(const std::vector<SegmentRecord>& segments) {
  json result = json::array();
  for (const SegmentRecord& segment : segments) {
    result.push_back({{"samples_count", segment.samples_count},
                      {"time_s", seconds(segment.time)},
                      {"reason", segment.reason}});
  }
  return result;
}

json failures_json(const std::vector<FailureRecord>& failures) {
  json result = json::array();
  for (const FailureRecord& failure : failures) {
    result.push_back(
        {{"worker", failure.worker},
         {"failed_s", seconds(failure.failed)},
         {"detected_s", seconds(failure.detected)},
         {"returned_s", failure.returned ? json(seconds(*failure.returned)) : json(nullptr)},
         {"lost_samples", failure.lost_samples},
         {"redone_samples", failure.redone_samples},
         {"mode", std::string(to_string(failure.mode))},
         {"state_bytes", failure.state_bytes}});
  }
  return result;
}

// See the schema for what each of them says.
json survival_json(const Record& record) {
  const double elapsed_s = record.elapsed.count(),
               all_s = elapsed_s * static_cast<double>(record.workers.size());
  double down_s = 0, idle_s = 0, resume_s = 0;
  std::uint64_t samples = 0, wasted = 0, returns = 0;
  for (const FailureRecord& failure : record.failures) {
    const double until_s = failure.returned ? failure.returned->count() : elapsed_s;
    down_s += std::max(0.0, std::min(until_s, elapsed_s) - failure.failed.count());
    wasted += failure.lost_samples + failure.redone_samples;
    if (!failure.returned) continue;
    resume_s += until_s - failure.failed.count();
    ++returns;
  }
  for (const WorkerRecord& worker : record.workers) {
    samples += worker.samples;
    idle_s += worker.report.breakdown.wait.count();
  }
  const double kept =
      samples > 0 ? 1 - std::min(1.0, static_cast<double>(wasted) / static_cast<double>(samples))
                  : 1;
  double taking_part = 1 - down_s / std::max(all_s, 1e-300);
  if (const auto found = record.histograms.find("contributors"); found != record.histograms.end()) {
    double rounds = 0, sum = 0;
    // Several learners of a worker may contribute.
    const auto all = std::max(static_cast<double>(record.workers.size()),
                              static_cast<double>(found->second.rbegin()->first));
    for (const auto& [contributors, count] : found->second) {
      rounds += static_cast<double>(count);
      sum += static_cast<double>(contributors) * static_cast<double>(count);
    }
    if (rounds > 0) taking_part = sum / rounds / all;
  }
  json result = {
      {"availability", 1 - down_s / std::max(all_s, 1e-300)},
      {"participation", taking_part},
      {"goodput", std::max(0.0, all_s - down_s - idle_s) * kept / std::max(all_s, 1e-300)},
      {"wasted_samples", wasted},
      {"resume_s", returns > 0 ? json(resume_s / static_cast<double>(returns)) : json(nullptr)}};
  return result;
}

json wall_json(const Record& record) {
  const PhaseTimes& phases = record.phases;
  json result = {
      {"load_s", phases.load_s},
      {"init_s", phases.init_s},
      {"train_s", phases.train_s},
      {"prepare_s", phases.prepare_s},
      {"eval_s", phases.eval_s},
      {"record_s", phases.record_s},
      {"total_s", phases.total_s},
      {"loading",
       {{"train", loading_json(record.train_report)}, {"test", loading_json(record.test_report)}}}};
  if (phases.checkpoint_s > 0) result["checkpoint_s"] = phases.checkpoint_s;
  if (!record.resumes.empty()) result["resumed_at"] = record.resumes;
  return result;
}

json environment_of(const Record& record) {
  json environment = hetsgd::environment_json();
  environment["evaluation_device"] = text_or_null(record.evaluation_device);
  if (!record.convolution_library.empty()) {
    environment["convolution_library"] = record.convolution_library;
  }
  if (record.load) {
    environment["load"] = {
        {"start", record.load->start}, {"end", nullptr}, {"idle_cores", record.load->idle_cores}};
    if (record.load->end) environment["load"]["end"] = *record.load->end;
  }
  return environment;
}

json curve_json(const Record& record) {
  json curve = json::array();
  for (std::size_t i = 0; i < record.curve.size(); ++i) {
    curve.push_back(point_json(record.curve[i], i == 0, record.virtual_time));
  }
  return curve;
}

// distinct_share is the number of requested rows per lookup, device_hit_share the share of these
// that lie on their owner's device. Both are null before the first lookup. `moved` is set only in
// runs whose hot rows changed.
json tables_json(const Record& record) {
  json tables = record.tables;
  LookupCounts counts;
  for (const WorkerRecord& worker : record.workers) {
    counts.lookups += worker.lookups.lookups;
    counts.entries += worker.lookups.entries;
    counts.asked += worker.lookups.asked;
    counts.on_device += worker.lookups.on_device;
    counts.evicted += worker.lookups.evicted;
    counts.moved += worker.lookups.moved;
  }
  const auto share = [](std::uint64_t part, std::uint64_t all) -> json {
    if (all == 0) return nullptr;
    return static_cast<double>(part) / static_cast<double>(all);
  };
  tables["distinct_share"] = share(counts.entries, counts.lookups);
  tables["evicted"] = counts.evicted;
  tables["device_hit_share"] = share(counts.on_device, counts.asked);
  if (counts.moved > 0) tables["moved"] = counts.moved;
  return tables;
}

}  // namespace

json result_json(const Record& record, const ResultOptions& options) {
  const Summary summary = summarise(record);
  json workers = json::array();
  for (std::size_t rank = 0; rank < record.workers.size(); ++rank) {
    workers.push_back(worker_json(record.workers[rank], rank));
  }
  json result = {
      {"schema_version", result_schema_version()},
      {"tool", tool_json()},
      {"args", json_text(options.args)},
      {"config", record.config},
      {"plugins", plugins_json(record.plugins)},
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
        {"server_profile", record.server_profile},
        {"network", record.network},
        {"charge", record.charge}}},
      {"stragglers", record.stragglers},
      {"workers", std::move(workers)},
      {"curve", curve_json(record)},
      {"events", record.events},
      {"histograms", histograms_json(record)},
      {"time_to_accuracy", targets_json(summary, RunStart::of(record))},
      {"summary", summary_json(record, summary)},
      {"wall", wall_json(record)},
      {"warnings", warnings_of(record, summary)},
      {"status", to_string(record.status)},
      {"status_reason", text_or_null(record.status_reason)},
      {"started_at", text_or_null(record.started_at)},
      {"finished_at", text_or_null(record.finished_at)}};
  if (!record.failures.empty()) {
    result["failures"] = failures_json(record.failures);
    result["survival"] = survival_json(record);
  }
  if (!record.segments.empty()) result["segments"] = segments_json(record.segments);
  if (!record.tables.is_null()) result["tables"] = tables_json(record);
  if (!record.machine.is_null()) result["cluster"]["machine"] = record.machine;
  if (options.redact) redact(result);
  explain_nonfinite(result);
  escape_bytes(result);
  return result;
}

bool is_done(const std::string& status) {
  return status == "completed" || status == "target_reached" || status == "diverged";
}

}  // namespace hetsgd
