#include "result/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "result/compare_parts.hpp"
#include "result/time_to_accuracy.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

constexpr double kMissed = std::numeric_limits<double>::infinity();

// With the times of that clock.
std::vector<Evaluation> evaluations_on(RunClock clock, const LoadedResult& result,
                                       const std::string& metric) {
  std::vector<Evaluation> all = evaluations_of(result.json, metric);
  const RunStart start = RunStart::of(result.json);
  for (Evaluation& each : all) {
    const auto time = time_on(clock, each, start);
    if (!time) {
      throw usage_error("--clock: found {}, which {} does not have ({})", to_string(clock),
                        result.path, no_time_reason(start));
    }
    each.time_s = *time;
  }
  return all;
}

RunTarget run_target(RunClock clock, const LoadedResult& result, const Target& target) {
  const std::vector<Evaluation> curve = evaluations_on(clock, result, target.metric);
  const TimeToAccuracy found = time_to_accuracy(curve, target);
  RunTarget row{kMissed, kMissed, kMissed, kMissed, kMissed, kNone};
  if (found.held) {
    row.evaluation = static_cast<double>(found.evaluation);
    if (found.evaluation > 0) row.resolution_s = found.resolution_s;
    row.time_s = found.held->time_s;
    row.uncertain = !found.certain;
    row.samples = static_cast<double>(found.held->samples_count);
    row.updates = static_cast<double>(found.held->updates);
  }
  if (found.first_crossing) {
    row.first_crossing_s = found.first_crossing->time_s;
    row.misses_at_end = found.misses_at_end;
  }
  return row;
}

double number_or_none(const json& object, const std::string& key) {
  return object.is_object() && object.contains(key) && object[key].is_number()
             ? object[key].get<double>()
             : kNone;
}

// A run that diverged before its metric could be measured is as bad as can be, not unknown.
double final_value(const json& result, const std::string& metric) {
  const double value = number_or_none(result["summary"]["final"], metric);
  if (!std::isnan(value) || result["status"] != "diverged") return value;
  return higher_is_better(metric) ? -kMissed : kMissed;
}

double updates_per_s(const json& result) {
  if (result["curve"].empty()) return kNone;
  const json& last = result["curve"].back();
  const double time_s = last["time_s"];
  return time_s > 0 ? last["updates"].get<double>() / time_s : kNone;
}

// A target that no evaluation can tell about is a mistake, not a miss. A run that failed before its
// first evaluation may have had any metric.
void check_measured(const LoadedResult& result, const Target& target) {
  const json& curve = result.json["curve"];
  if (curve.empty() || curve.front().contains(target.metric)) return;
  std::vector<std::string> metrics;
  for (const std::string& metric : metric_names()) {
    if (curve.front().contains(metric)) metrics.push_back(metric);
  }
  throw with_hint(usage_error("{}: the target is {}, but {} was not measured, expected one of {}",
                              result.path, target.text(), target.metric, fmt::join(metrics, ", ")),
                  "--target names another, for example --target 'accuracy>=0.8'");
}

std::vector<Target> targets_of(const std::vector<LoadedResult>& results) {
  std::vector<Target> targets;
  for (const LoadedResult& result : results) {
    for (const json& entry : result.json["time_to_accuracy"]) {
      const Target target{entry["metric"], entry["at_least"], entry["value"]};
      const bool known = std::any_of(targets.begin(), targets.end(), [&](const Target& each) {
        return each.text() == target.text();
      });
      if (!known) targets.push_back(target);
    }
  }
  return targets;
}

// The metric of the first target, else the first that the first curve has.
std::string metric_of_comparison(const std::vector<LoadedResult>& results,
                                 const std::vector<Target>& targets) {
  if (!targets.empty()) return targets.front().metric;
  for (const std::string& metric : metric_names()) {
    const json& curve = results.front().json["curve"];
    if (!curve.empty() && curve.back().contains(metric)) return metric;
  }
  return kTestLoss;
}

RunRow run_row(const LoadedResult& loaded, const Comparison& comparison) {
  const json& result = loaded.json;
  RunRow run;
  run.path = loaded.path;
  run.algorithm = result["config"]["algorithm"];
  run.status = result["status"];
  run.seed = result["config"]["seed"];
  run.samples_per_s = number_or_none(result["summary"], "samples_per_s");
  run.updates_per_s = updates_per_s(result);
  run.final_value = final_value(result, comparison.metric);
  run.tuning = result.value("tuning", json(nullptr));
  for (const Target& target : comparison.targets) {
    run.targets.push_back(run_target(comparison.clock, loaded, target));
  }
  return run;
}

}  // namespace

const GroupRow& Comparison::reference() const {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [](const GroupRow& group) { return group.reference; });
  HETSGD_CHECK(found != groups.end());
  return *found;
}

double Comparison::worst_ratio() const {
  double worst = 0;
  for (const GroupRow& group : groups) {
    for (const GroupTarget& target : group.targets) {
      if (!group.reference && target.ratio > worst) worst = target.ratio;
    }
  }
  return worst;
}

Comparison compare(const std::vector<LoadedResult>& results, const CompareOptions& options) {
  if (results.empty()) throw usage_error("compare: found no result files, expected at least one");
  Comparison comparison;
  comparison.targets = options.targets.empty() ? targets_of(results) : options.targets;
  comparison.clock = options.clock;
  comparison.metric = metric_of_comparison(results, comparison.targets);
  for (const LoadedResult& result : results) {
    for (const Target& target : comparison.targets) check_measured(result, target);
    comparison.runs.push_back(run_row(result, comparison));
  }
  make_groups(results, options.names ? *options.names : names_of({&results}), comparison);
  fill_groups(comparison);
  choose_reference(options, comparison);
  relate_groups(comparison);
  sort_groups(comparison);
  add_warnings(results, comparison);
  return comparison;
}

}  // namespace hetsgd
