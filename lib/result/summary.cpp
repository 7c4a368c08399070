#include "result/summary.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hetsgd {
namespace {

std::vector<Evaluation> evaluations_of_record(const Record& record, const std::string& metric) {
  std::vector<Evaluation> result;
  for (const CurvePoint& point : record.curve) {
    if (const auto value = metric_of(point, metric)) {
      Evaluation evaluation{point.time.count(), point.samples_count, point.updates, *value,
                            point.prepare.count()};
      if (!record.virtual_time) evaluation.wall_s = point.wall_s;
      result.push_back(evaluation);
    }
  }
  return result;
}

std::map<std::string, double> by_key(const std::vector<MetricValue>& values) {
  std::map<std::string, double> metrics;
  for (const MetricValue& each : values) metrics[each.metric->key()] = each.value;
  return metrics;
}

std::optional<Evaluation> best_of(const Record& record, const std::string& metric) {
  const bool higher = higher_is_better(metric);
  std::optional<Evaluation> best;
  for (const Evaluation& each : evaluations_of_record(record, metric)) {
    if (!std::isfinite(each.value)) continue;
    if (!best || (higher ? each.value > best->value : each.value < best->value)) {
      best = each;
    }
  }
  return best;
}

}  // namespace

std::map<std::string, double> metrics_at(const CurvePoint& point) { return by_key(point.metrics); }

TimeToAccuracy time_to(const Record& record, const Target& target) {
  return time_to_accuracy(evaluations_of_record(record, target.metric), target);
}

std::uint64_t total_bytes(const TrafficBytes& by_kind) {
  return std::accumulate(by_kind.begin(), by_kind.end(), std::uint64_t{0});
}

bool Summary::reached_all_targets() const {
  return std::ranges::all_of(targets,
                             [](const TargetSummary& each) { return each.time.held.has_value(); });
}

Summary summarise(const Record& record) {
  Summary summary;
  if (!record.curve.empty()) {
    summary.last = record.curve.back();
    summary.final_metrics = metrics_at(summary.last);
    for (const auto& [metric, value] : summary.final_metrics) {
      if (const auto best = best_of(record, metric)) summary.best[metric] = *best;
    }
  }
  if (const ConstantGuess& guess = record.constant_guess; !guess.metrics.empty()) {
    summary.constant_guess = by_key(guess.metrics);
    summary.constant_guess[kTrainLoss] = guess.train_loss;
  }
  for (const Target& target : record.targets) {
    summary.targets.push_back({target, time_to(record, target)});
  }
  double compute_s = 0;
  for (const WorkerRecord& worker : record.workers) {
    const TimeBreakdown& breakdown = worker.report.breakdown;
    compute_s += breakdown.compute.count();
    summary.bytes_sent += total_bytes(breakdown.bytes_sent);
    summary.bytes_received += total_bytes(breakdown.bytes_received);
  }
  summary.elapsed_s = std::max(record.elapsed, summary.last.time).count();
  if (summary.elapsed_s > 0) {
    summary.samples_per_s = static_cast<double>(summary.last.samples_count) / summary.elapsed_s;
  }
  if (record.server_link_busy > Seconds(0) && summary.elapsed_s > 0) {
    summary.server_link_ratio = std::min(1.0, record.server_link_busy.count() / summary.elapsed_s);
  }
  const double worker_s = summary.elapsed_s * static_cast<double>(record.workers.size());
  if (worker_s > 0) summary.computing_ratio = compute_s / worker_s;
  return summary;
}

}  // namespace hetsgd
