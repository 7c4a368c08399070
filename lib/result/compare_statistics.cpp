// The numbers of a group, and how they relate to the reference's.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "result/compare_parts.hpp"

namespace hetsgd {
namespace {

bool any_none(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
}

// NaN as soon as one of the values is.
Interval interval_of(const std::vector<double>& values) {
  return any_none(values) ? Interval{kNone, kNone, kNone} : bootstrap_median(values);
}

template <class Value>
std::vector<double> values_of(const Comparison& comparison, const GroupRow& group, Value value) {
  std::vector<double> values;
  for (const std::size_t run : group.runs) values.push_back(value(comparison.runs[run]));
  return values;
}

std::vector<double> target_values(const Comparison& comparison, const GroupRow& group,
                                  std::size_t t, double RunTarget::*member) {
  return values_of(comparison, group, [&](const RunRow& run) { return run.targets[t].*member; });
}

GroupTarget group_target(const Comparison& comparison, const GroupRow& group, std::size_t t) {
  const auto values = [&](double RunTarget::*member) {
    return target_values(comparison, group, t, member);
  };
  GroupTarget target;
  const std::vector<double> times = values(&RunTarget::time_s);
  target.reached = static_cast<std::size_t>(
      std::count_if(times.begin(), times.end(), [](double x) { return std::isfinite(x); }));
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
    target.resolution_s = std::fmax(target.resolution_s, each);  // fmax passes NaN over
  }
  return target;
}

void fill_group(const Comparison& comparison, GroupRow& group) {
  group.samples_per_s = interval_of(
      values_of(comparison, group, [](const RunRow& run) { return run.samples_per_s; }));
  group.final_value =
      interval_of(values_of(comparison, group, [](const RunRow& run) { return run.final_value; }));
  group.diverged = static_cast<std::size_t>(
      std::count_if(group.runs.begin(), group.runs.end(),
                    [&](std::size_t run) { return comparison.runs[run].status == "diverged"; }));
  for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
    group.targets.push_back(group_target(comparison, group, t));
  }
}

Relation relation(const GroupRow& group, const std::vector<double>& values,
                  const std::vector<double>& base) {
  if (any_none(values) || any_none(base)) return {{kNone, kNone, kNone}, kNone};
  if (group.reference) return {{1, 1, 1}, kNone};
  return {bootstrap_ratio(values, base), mann_whitney(values, base).p_value};
}

template <class Value>
Relation run_relation(const Comparison& comparison, const GroupRow& reference,
                      const GroupRow& group, Value value) {
  return relation(group, values_of(comparison, group, value),
                  values_of(comparison, reference, value));
}

// a / b where both are positive and finite.
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
    target.p_value = kNone;
    return;
  }
  const std::vector<double> times = target_values(comparison, group, t, &RunTarget::time_s);
  const std::vector<double> base_times =
      target_values(comparison, reference, t, &RunTarget::time_s);
  target.speedup = bootstrap_ratio(base_times, times);
  target.p_value = mann_whitney(times, base_times).p_value;
}

// One family of tests per target: every group against the reference.
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

}  // namespace

void fill_groups(Comparison& comparison) {
  for (GroupRow& group : comparison.groups) fill_group(comparison, group);
}

void relate_groups(Comparison& comparison) {
  const GroupRow& reference = comparison.reference();
  for (GroupRow& group : comparison.groups) {
    group.samples_per_s_relation = run_relation(
        comparison, reference, group, [](const RunRow& run) { return run.samples_per_s; });
    group.updates_per_s_relation = run_relation(
        comparison, reference, group, [](const RunRow& run) { return run.updates_per_s; });
    group.final_relation = run_relation(comparison, reference, group,
                                        [](const RunRow& run) { return run.final_value; });
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
  std::stable_sort(comparison.groups.begin(), comparison.groups.end(),
                   [&](const GroupRow& a, const GroupRow& b) { return key(a) < key(b); });
}

}  // namespace hetsgd
