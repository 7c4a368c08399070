#include "result/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "result/compare_parts.hpp"
#include "result/time_to_accuracy.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

constexpr double kMissed = std::numeric_limits<double>::infinity();

// The evaluations of a metric, with their times on that clock.
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

// The final value of a metric. A run that diverged before its metric was measured has the worst
// value, not an unknown one.
double final_value(const json& result, const std::string& metric) {
  const double value = number_at(result["summary"]["final"], metric);
  if (!std::isnan(value) || result["status"] != "diverged") return value;
  return higher_is_better(metric) ? -kMissed : kMissed;
}

double updates_per_s(const json& result) {
  if (result["curve"].empty()) return kNone;
  const json& last = result["curve"].back();
  const double time_s = last["time_s"];
  return time_s > 0 ? last["updates"].get<double>() / time_s : kNone;
}

// Refuses a target whose metric the result does not measure, because that is a mistake and not a
// miss. A run that failed before its first evaluation may have had any metric.
void check_measured(const LoadedResult& result, const Target& target) {
  const json& curve = result.json["curve"];
  if (curve.empty() || curve.front().contains(target.metric)) return;
  std::vector<std::string> metrics;
  for (const std::string& metric : metric_names()) {
    if (curve.front().contains(metric)) metrics.push_back(metric);
  }
  throw with_hint(usage_error("{}: the target is {}, but {} was not measured, expected one of {}",
                              result.path, target.text(), target.metric, fmt::join(metrics, ", ")),
                  "--target names another target, for example --target 'accuracy>=0.8'");
}

std::vector<Target> targets_of(const std::vector<LoadedResult>& results) {
  std::vector<Target> targets;
  for (const LoadedResult& result : results) {
    for (const json& entry : result.json["time_to_accuracy"]) {
      const Target target{entry["metric"], entry["at_least"], entry["value"]};
      const bool known = std::ranges::any_of(
          targets, [&](const Target& each) { return each.text() == target.text(); });
      if (!known) targets.push_back(target);
    }
  }
  return targets;
}

// The metric of the first target, else the first metric of the first curve.
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
  run.samples_per_s = number_at(result["summary"], "samples_per_s");
  run.updates_per_s = updates_per_s(result);
  run.final_value = final_value(result, comparison.metric);
  run.tuning = result.value("tuning", json(nullptr));
  for (const Target& target : comparison.targets) {
    run.targets.push_back(run_target(comparison.clock, loaded, target));
  }
  return run;
}

// --- the values of a group, and their relation to the reference ----------------------------------

bool any_none(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double x) { return std::isnan(x); });
}

// The bootstrap interval of the median. All NaN if one of the values is.
Interval interval_of(const std::vector<double>& values) {
  return any_none(values) ? Interval{kNone, kNone, kNone} : bootstrap_median(values);
}

// The runs of a group by seed, so that the values of paired groups stand in one order.
std::vector<std::size_t> by_seed(const Comparison& comparison, const GroupRow& group) {
  std::vector<std::size_t> runs = group.runs;
  std::ranges::stable_sort(runs, {}, [&](std::size_t run) { return comparison.runs[run].seed; });
  return runs;
}

std::vector<double> values_of(const Comparison& comparison, const GroupRow& group,
                              double RunRow::*member) {
  std::vector<double> values;
  for (const std::size_t run : by_seed(comparison, group))
    values.push_back(comparison.runs[run].*member);
  return values;
}

std::vector<double> target_values(const Comparison& comparison, const GroupRow& group,
                                  std::size_t t, double RunTarget::*member) {
  std::vector<double> values;
  for (const std::size_t run : by_seed(comparison, group)) {
    values.push_back(comparison.runs[run].targets[t].*member);
  }
  return values;
}

GroupTarget group_target(const Comparison& comparison, const GroupRow& group, std::size_t t) {
  const auto values = [&](double RunTarget::*member) {
    return target_values(comparison, group, t, member);
  };
  GroupTarget target;
  const std::vector<double> times = values(&RunTarget::time_s);
  target.reached = static_cast<std::size_t>(
      std::ranges::count_if(times, [](double x) { return std::isfinite(x); }));
  target.time_s = bootstrap_median(times);
  target.first_crossing_s = bootstrap_median(values(&RunTarget::first_crossing_s));
  for (const std::size_t run : group.runs) {
    const RunTarget& each = comparison.runs[run].targets[t];
    target.misses_at_end += each.misses_at_end ? 1 : 0;
    target.uncertain += each.uncertain ? 1 : 0;
  }
  target.samples = median(values(&RunTarget::samples));
  target.updates = median(values(&RunTarget::updates));
  target.evaluation = median(values(&RunTarget::evaluation));
  target.resolution_s = kNone;
  for (const double each : values(&RunTarget::resolution_s)) {
    target.resolution_s = std::fmax(target.resolution_s, each);  // fmax ignores NaN
  }
  return target;
}

void fill_group(const Comparison& comparison, GroupRow& group) {
  group.samples_per_s = interval_of(values_of(comparison, group, &RunRow::samples_per_s));
  group.final_value = interval_of(values_of(comparison, group, &RunRow::final_value));
  group.diverged = static_cast<std::size_t>(std::ranges::count_if(
      group.runs, [&](std::size_t run) { return comparison.runs[run].status == "diverged"; }));
  for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
    group.targets.push_back(group_target(comparison, group, t));
  }
}

// The relation of the values of a group to those of the reference, both in the order of seeds.
Relation relation(const GroupRow& group, const std::vector<double>& values,
                  const std::vector<double>& base) {
  if (any_none(values) || any_none(base)) return {{kNone, kNone, kNone}, kNone, kNone};
  if (group.reference) return {{1, 1, 1}, kNone, kNone};
  if (group.paired) {
    return {bootstrap_paired_ratio(values, base), signed_rank(values, base).p_value,
            least_paired_effect(values, base)};
  }
  return {bootstrap_ratio(values, base), mann_whitney(values, base).p_value,
          least_effect(values, base)};
}

// a / b if both are positive and finite, else NaN.
double factor(double a, double b) {
  return a > 0 && b > 0 && std::isfinite(a) && std::isfinite(b) ? a / b : kNone;
}

void relate(const Comparison& comparison, const GroupRow& reference, GroupRow& group,
            std::size_t t) {
  const GroupTarget& base = reference.targets[t];
  GroupTarget& target = group.targets[t];
  const auto relation_of = [&](double RunTarget::*member) {
    return relation(group, target_values(comparison, group, t, member),
                    target_values(comparison, reference, t, member));
  };
  target.first_crossing_relation = relation_of(&RunTarget::first_crossing_s);
  target.samples_relation = relation_of(&RunTarget::samples);
  target.updates_relation = relation_of(&RunTarget::updates);
  target.ratio = ratio_of_times(target.time_s.median, base.time_s.median);
  target.statistical = factor(base.samples, target.samples);
  target.hardware = factor(factor(target.samples, target.time_s.median),
                           factor(base.samples, base.time_s.median));
  if (group.reference) {
    target.speedup = {target.ratio, target.ratio, target.ratio};
    target.p_value = target.least_effect = kNone;
    return;
  }
  const Relation speedup =
      relation(group, target_values(comparison, reference, t, &RunTarget::time_s),
               target_values(comparison, group, t, &RunTarget::time_s));
  target.speedup = speedup.ratio;
  target.p_value = speedup.p_value;
  target.least_effect = speedup.least_effect;
}

// Corrects the p-values. The tests of all groups against the reference are one family per target.
void correct_p_values(Comparison& comparison, std::size_t t) {
  std::vector<double> p_values;
  for (const GroupRow& group : comparison.groups) {
    if (!std::isnan(group.targets[t].p_value)) p_values.push_back(group.targets[t].p_value);
  }
  const std::vector<double> corrected = holm(p_values);
  auto next = corrected.begin();
  for (GroupRow& group : comparison.groups) {
    GroupTarget& target = group.targets[t];
    target.p_holm = std::isnan(target.p_value) ? kNone : *next++;
  }
}

void relate_groups(Comparison& comparison) {
  const GroupRow& reference = comparison.reference();
  for (GroupRow& group : comparison.groups) {
    const auto relation_of = [&](double RunRow::*member) {
      return relation(group, values_of(comparison, group, member),
                      values_of(comparison, reference, member));
    };
    group.samples_per_s_relation = relation_of(&RunRow::samples_per_s);
    group.updates_per_s_relation = relation_of(&RunRow::updates_per_s);
    group.final_relation = relation_of(&RunRow::final_value);
    for (std::size_t t = 0; t < group.targets.size(); ++t) relate(comparison, reference, group, t);
  }
  for (std::size_t t = 0; t < comparison.targets.size(); ++t) correct_p_values(comparison, t);
}

void sort_groups(Comparison& comparison) {
  const bool larger = higher_is_better(comparison.metric);
  const auto key = [&](const GroupRow& group) {
    const double time = group.targets.empty() ? 0 : group.targets.front().time_s.median;
    const double value = group.final_value.median;
    return std::tuple(time, std::isnan(value), std::isnan(value) ? 0 : (larger ? -value : value));
  };
  std::ranges::stable_sort(comparison.groups, {}, key);
}

}  // namespace

double number_at(const json& object, const std::string& key) {
  const bool there = object.is_object() && object.contains(key) && object[key].is_number();
  return there ? object[key].get<double>() : kNone;
}

const GroupRow& Comparison::reference() const {
  const auto found = std::ranges::find(groups, true, &GroupRow::reference);
  HETSGD_CHECK(found != groups.end());
  return *found;
}

std::vector<const GroupRow*> Comparison::groups_by_file() const {
  std::vector<const GroupRow*> all;
  for (const GroupRow& group : groups) all.push_back(&group);
  std::ranges::sort(all, {}, [](const GroupRow* group) { return group->runs.front(); });
  return all;
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
  for (GroupRow& group : comparison.groups) fill_group(comparison, group);
  choose_reference(options, comparison);
  pair_groups(results, comparison);
  relate_groups(comparison);
  sort_groups(comparison);
  add_warnings(results, comparison);
  return comparison;
}

}  // namespace hetsgd
