#include "result/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "core/text.hpp"

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

// The waits of all workers as a text; "" if no worker has waited, or there is no trace.
std::string waiting_text(const Record& record) {
  std::map<std::pair<int, std::string>, Seconds> sums;
  Seconds all{0};
  for (const WorkerRecord& worker : record.workers) {
    if (!worker.waited_for) continue;
    all += worker.report.breakdown.wait;
    for (const WaitedFor& each : *worker.waited_for) sums[{each.rank, each.service}] += each.wait;
  }
  if (sums.empty() || all <= Seconds(0)) return "";
  const auto& [whom, most] =
      *std::ranges::max_element(sums, {}, [](const auto& entry) { return entry.second; });
  return fmt::format("waiting: {} of the workers' time, {:.0f} % of it for {}", format_seconds(all),
                     100 * (most / all),
                     whom.first >= 0 ? fmt::format("worker {}", whom.first)
                                     : fmt::format("the service {}", whom.second));
}

// The reason to doubt a time to a target; "" if there is none.
std::string doubt_of(const Target& target, const TimeToAccuracy& time) {
  if (time.outcome() == TargetOutcome::crossed) {
    return fmt::format(
        "{} is crossed after {}, but not held: more than half of that evaluation and the next four "
        "must reach it (at the end of a run at least three evaluations decide)",
        target.text(), format_seconds(Seconds(time.first_crossing->time_s)));
  }
  if (time.held && time.misses_at_end) {
    return fmt::format("{} is held from {} on, but the last evaluation misses it", target.text(),
                       format_seconds(Seconds(time.held->time_s)));
  }
  return "";
}

// Whether rows of tokens differ in length.
bool has_unequal_rows(const Record& record) {
  if (!record.train || record.train->tokens.vocabulary == 0) return false;
  const auto& length = record.train->tokens.length;
  return std::adjacent_find(length.begin(), length.end(), std::not_equal_to<>()) != length.end();
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
  summary.tokens_per_sample = record.tokens_per_sample();
  const double worker_s = summary.elapsed_s * static_cast<double>(record.workers.size());
  if (worker_s > 0) summary.computing_ratio = compute_s / worker_s;
  return summary;
}

std::vector<std::string> warnings_of(const Record& record, const Summary& summary) {
  std::vector<std::string> warnings = record.warnings;
  for (const auto& [target, time] : summary.targets) {
    if (std::string doubt = doubt_of(target, time); !doubt.empty()) {
      warnings.push_back(std::move(doubt));
    }
    const std::size_t evaluation = time.evaluation;
    if (!time.held || evaluation == 0 || evaluation > kFineEvaluations) continue;
    warnings.push_back(fmt::format(
        "{} was reached at evaluation {}: its time is exact to {}, the interval between "
        "evaluations; a smaller --evaluate-every makes it finer, down to one round",
        target.text(), evaluation, format_seconds(Seconds(time.resolution_s))));
  }
  return warnings;
}

std::vector<std::string> remarks_of(const Record& record, const Summary& summary) {
  std::vector<std::string> remarks = record.remarks;
  if (summary.server_link_ratio) {
    remarks.push_back(fmt::format("server link {:.0f} % busy", 100 * *summary.server_link_ratio));
  }
  if (std::string waiting = waiting_text(record); !waiting.empty()) {
    remarks.push_back(std::move(waiting));
  }
  if (record.workers.size() > 1 && has_unequal_rows(record)) {
    remarks.push_back(
        "rows have unequal numbers of targets, and workers are weighted by rows: their mean "
        "differs from the gradient that one worker would have of all their rows");
  }
  return remarks;
}

}  // namespace hetsgd
