// A comparison for programs: CSV tables and JSON, with every number.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "result/compare.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

std::string number(double value, const char* format) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format(fmt::runtime(format), value);
}

std::string time_text(double value) { return number(value, "{:.6g}"); }
std::string count_text(double value) { return number(value, "{:.0f}"); }
std::string metric_text(double value) { return number(value, "{:.4f}"); }

template <class Show>
void append_interval(std::vector<std::string>& row, const Interval& interval, Show show) {
  row.insert(row.end(), {show(interval.median), show(interval.low), show(interval.high)});
}

json interval_json(const Interval& interval) {
  return {{"median", interval.median}, {"low", interval.low}, {"high", interval.high}};
}

json relation_json(const Relation& relation) {
  return {{"ratio", interval_json(relation.ratio)}, {"p_value", relation.p_value}};
}

json group_target_json(const Comparison& comparison, const GroupRow& group, std::size_t t) {
  const GroupTarget& target = group.targets[t];
  json samples = json::array();
  for (const std::size_t run : group.runs) {
    samples.push_back(comparison.runs[run].targets[t].time_s);
  }
  return {{"target", comparison.targets[t].text()},
          {"reached", target.reached},
          {"misses_at_end", target.misses_at_end},
          {"time_s", interval_json(target.time_s)},
          {"times_s", std::move(samples)},
          {"first_crossing_s", interval_json(target.first_crossing_s)},
          {"samples_count", target.samples},
          {"updates", target.updates},
          {"ratio", target.ratio},
          {"speedup", interval_json(target.speedup)},
          {"statistical_efficiency_ratio", target.statistical},
          {"hardware_efficiency_ratio", target.hardware},
          {"p_value", target.p_value},
          {"p_value_holm", target.p_holm},
          {"evaluation", target.evaluation},
          {"resolution_s", target.resolution_s},
          {"first_crossing_relation", relation_json(target.first_crossing_relation)},
          {"samples_relation", relation_json(target.samples_relation)},
          {"updates_relation", relation_json(target.updates_relation)}};
}

// The varying options that it has.
json options_json(const Comparison& comparison, const RunRow& run) {
  json options = json::object();
  for (std::size_t i = 0; i < run.values.size(); ++i) {
    if (!run.values[i].empty()) options[comparison.varying[i]] = run.values[i];
  }
  return options;
}

json run_json(const Comparison& comparison, const RunRow& run) {
  json row = {{"file", run.path},           {"label", run.label},
              {"algorithm", run.algorithm}, {"seed", run.seed},
              {"status", run.status},       {"samples_per_s", run.samples_per_s},
              {"final", run.final_value},   {"targets", json::array()}};
  for (std::size_t t = 0; t < run.targets.size(); ++t) {
    row["targets"].push_back({{"target", comparison.targets[t].text()},
                              {"time_s", run.targets[t].time_s},
                              {"first_crossing_s", run.targets[t].first_crossing_s},
                              {"samples_count", run.targets[t].samples},
                              {"updates", run.targets[t].updates},
                              {"evaluation", run.targets[t].evaluation},
                              {"resolution_s", run.targets[t].resolution_s}});
  }
  row["options"] = options_json(comparison, run);
  return row;
}

json group_json(const Comparison& comparison, const GroupRow& group) {
  json row = {{"label", group.label},
              {"algorithm", group.algorithm},
              {"reference", group.reference},
              {"n", group.runs.size()},
              {"diverged", group.diverged},
              {"samples_per_s", interval_json(group.samples_per_s)},
              {"final", interval_json(group.final_value)},
              {"samples_per_s_relation", relation_json(group.samples_per_s_relation)},
              {"updates_per_s_relation", relation_json(group.updates_per_s_relation)},
              {"final_relation", relation_json(group.final_relation)},
              {"tuning", group.tuning},
              {"options", options_json(comparison, comparison.runs[group.runs.front()])},
              {"targets", json::array()}};
  for (std::size_t t = 0; t < group.targets.size(); ++t) {
    row["targets"].push_back(group_target_json(comparison, group, t));
  }
  return row;
}

// What does not depend on a target.
void append_common(std::vector<std::string>& row, const GroupRow& group) {
  append_interval(row, group.samples_per_s, time_text);
  append_interval(row, group.final_value, metric_text);
  const bool tuned = !group.tuning.is_null();
  row.push_back(tuned ? group.tuning["trials"].dump() : "-");
  row.push_back(tuned ? time_text(group.tuning["train_s"].get<double>()) : "-");
}

std::vector<std::string> target_cells(const Comparison& comparison, const GroupRow& group,
                                      std::size_t t) {
  const GroupTarget& target = group.targets[t];
  std::vector<std::string> row = {comparison.targets[t].text(), fmt::format("{}", target.reached)};
  append_interval(row, target.time_s, time_text);
  row.insert(row.end(), {time_text(target.first_crossing_s.median), count_text(target.samples),
                         count_text(target.updates), number(target.ratio, "{:.4f}")});
  append_interval(row, target.speedup, metric_text);
  row.insert(row.end(), {metric_text(target.statistical), metric_text(target.hardware),
                         number(target.p_value, "{:.4g}"), number(target.p_holm, "{:.4g}"),
                         time_text(target.evaluation), time_text(target.resolution_s)});
  return row;
}

// What a run or a group is: its label, and what the label is made of in columns of their own.
std::vector<std::string> identity_header(const Comparison& comparison) {
  std::vector<std::string> header = {"group", "algorithm"};
  header.insert(header.end(), comparison.varying.begin(), comparison.varying.end());
  return header;
}

std::vector<std::string> identity_cells(const RunRow& run) {
  std::vector<std::string> cells = {run.label, run.algorithm};
  for (const std::string& value : run.values) cells.push_back(value.empty() ? "-" : value);
  return cells;
}

}  // namespace

Table runs_table(const Comparison& comparison) {
  std::vector<std::string> header = identity_header(comparison);
  header.insert(header.end(), {"file", "seed", "status"});
  for (const Target& target : comparison.targets) {
    for (const char* const name :
         {"time_s", "first_crossing_s", "samples", "updates", "evaluation", "resolution_s"}) {
      header.push_back(fmt::format("{} {}", target.text(), name));
    }
  }
  header.insert(header.end(), {"samples_per_s", "final_" + comparison.metric});
  Table table(header);
  for (const RunRow& run : comparison.runs) {
    std::vector<std::string> row = identity_cells(run);
    row.insert(row.end(), {run.path, fmt::format("{}", run.seed), run.status});
    for (const RunTarget& target : run.targets) {
      row.insert(row.end(), {time_text(target.time_s), time_text(target.first_crossing_s),
                             count_text(target.samples), count_text(target.updates),
                             count_text(target.evaluation), time_text(target.resolution_s)});
    }
    row.insert(row.end(), {time_text(run.samples_per_s), metric_text(run.final_value)});
    table.add(std::move(row));
  }
  return table;
}

Table groups_table(const Comparison& comparison) {
  std::vector<std::string> header = identity_header(comparison);
  header.insert(header.end(), {"n", "diverged"});
  if (!comparison.targets.empty()) {
    header.insert(header.end(),
                  {"target", "reached", "time_s", "time_s_low", "time_s_high", "first_crossing_s",
                   "samples", "updates", "ratio", "speedup", "speedup_low", "speedup_high",
                   "statistical_efficiency_ratio", "hardware_efficiency_ratio", "p_value",
                   "p_value_holm", "evaluation", "resolution_s"});
  }
  const std::string final = "final_" + comparison.metric;
  header.insert(header.end(), {"samples_per_s", "samples_per_s_low", "samples_per_s_high", final,
                               final + "_low", final + "_high", "tuning_trials", "tuning_train_s"});
  Table table(header);
  for (const GroupRow& group : comparison.groups) {
    std::vector<std::string> start = identity_cells(comparison.runs[group.runs.front()]);
    start.insert(start.end(),
                 {fmt::format("{}", group.runs.size()), fmt::format("{}", group.diverged)});
    for (std::size_t t = 0; t < std::max<std::size_t>(1, group.targets.size()); ++t) {
      std::vector<std::string> row = start;
      if (!group.targets.empty()) {
        const std::vector<std::string> cells = target_cells(comparison, group, t);
        row.insert(row.end(), cells.begin(), cells.end());
      }
      append_common(row, group);
      table.add(std::move(row));
    }
  }
  return table;
}

json comparison_json(const Comparison& comparison) {
  json result = {{"metric", comparison.metric},
                 {"clock", to_string(comparison.clock)},
                 {"reference", comparison.reference().label},
                 {"runs", json::array()},
                 {"groups", json::array()},
                 {"warnings", comparison.warnings}};
  for (const RunRow& run : comparison.runs) result["runs"].push_back(run_json(comparison, run));
  std::vector<const GroupRow*> groups;
  for (const GroupRow& group : comparison.groups) groups.push_back(&group);
  std::sort(groups.begin(), groups.end(),
            [](const GroupRow* a, const GroupRow* b) { return a->runs.front() < b->runs.front(); });
  for (const GroupRow* group : groups) result["groups"].push_back(group_json(comparison, *group));
  explain_nonfinite(result);
  return result;
}

}  // namespace hetsgd
