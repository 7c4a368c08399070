// A comparison as tables and as JSON.
#include <fmt/format.h>

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

std::string time_text(double value) { return number(value, "{:.4g}"); }
std::string count_text(double value) { return number(value, "{:.0f}"); }
std::string metric_text(double value) { return number(value, "{:.4f}"); }

// "12.3 [11.9, 14.0]"; one run has no interval.
template <class Show>
std::string interval_text(const Interval& interval, std::size_t n, Show show) {
  if (n < 2 || std::isnan(interval.median)) return show(interval.median);
  return fmt::format("{} [{}, {}]", show(interval.median), show(interval.low), show(interval.high));
}

json interval_json(const Interval& interval) {
  return {{"median", interval.median}, {"low", interval.low}, {"high", interval.high}};
}

json group_target_json(const Comparison& comparison, const GroupRow& group, std::size_t t) {
  const GroupTarget& target = group.targets[t];
  json samples = json::array();
  for (const std::size_t run : group.runs) {
    samples.push_back(comparison.runs[run].targets[t].time_s);
  }
  return {{"target", comparison.targets[t].text()},
          {"reached", target.reached},
          {"time_s", interval_json(target.time_s)},
          {"times_s", std::move(samples)},
          {"smoothed_time_s", interval_json(target.smoothed_time_s)},
          {"samples_count", target.samples},
          {"updates", target.updates},
          {"ratio", target.ratio}};
}

}  // namespace

Table runs_table(const Comparison& comparison) {
  std::vector<std::string> header = {"run", "file", "seed", "status"};
  for (const Target& target : comparison.targets) {
    const std::string text = target.text();
    header.insert(header.end(), {text + " time_s", "smoothed_time_s", "samples", "updates"});
  }
  header.insert(header.end(), {"samples_per_s", "final " + comparison.metric});
  Table table(header);
  for (const RunRow& run : comparison.runs) {
    std::vector<std::string> row = {run.label, run.path, fmt::format("{}", run.seed), run.status};
    for (const RunTarget& target : run.targets) {
      row.insert(row.end(), {time_text(target.time_s), time_text(target.smoothed_time_s),
                             count_text(target.samples), count_text(target.updates)});
    }
    row.insert(row.end(), {time_text(run.samples_per_s), metric_text(run.final_value)});
    table.add(std::move(row));
  }
  return table;
}

Table groups_table(const Comparison& comparison) {
  std::vector<std::string> header = {"algorithm", "n"};
  for (const Target& target : comparison.targets) {
    header.insert(header.end(), {target.text() + " time_s", "reached", "smoothed_time_s", "samples",
                                 "updates", "ratio"});
  }
  header.insert(header.end(), {"samples_per_s", "final " + comparison.metric});
  Table table(header);
  for (const GroupRow& group : comparison.groups) {
    const std::size_t n = group.runs.size();
    std::vector<std::string> row = {group.label, fmt::format("{}", n)};
    for (const GroupTarget& target : group.targets) {
      row.insert(row.end(), {interval_text(target.time_s, n, time_text),
                             fmt::format("{}/{}", target.reached, n),
                             time_text(target.smoothed_time_s.median), count_text(target.samples),
                             count_text(target.updates), number(target.ratio, "{:.3f}")});
    }
    row.insert(row.end(), {interval_text(group.samples_per_s, n, time_text),
                           interval_text(group.final_value, n, metric_text)});
    table.add(std::move(row));
  }
  return table;
}

json comparison_json(const Comparison& comparison) {
  json result = {{"metric", comparison.metric},
                 {"runs", json::array()},
                 {"groups", json::array()},
                 {"warnings", comparison.warnings}};
  for (const RunRow& run : comparison.runs) {
    json row = {{"file", run.path},           {"label", run.label},
                {"algorithm", run.algorithm}, {"seed", run.seed},
                {"status", run.status},       {"samples_per_s", run.samples_per_s},
                {"final", run.final_value},   {"targets", json::array()}};
    for (std::size_t t = 0; t < run.targets.size(); ++t) {
      row["targets"].push_back({{"target", comparison.targets[t].text()},
                                {"time_s", run.targets[t].time_s},
                                {"smoothed_time_s", run.targets[t].smoothed_time_s},
                                {"samples_count", run.targets[t].samples},
                                {"updates", run.targets[t].updates}});
    }
    result["runs"].push_back(std::move(row));
  }
  for (const GroupRow& group : comparison.groups) {
    json row = {{"label", group.label},
                {"algorithm", group.algorithm},
                {"reference", group.reference},
                {"n", group.runs.size()},
                {"samples_per_s", interval_json(group.samples_per_s)},
                {"final", interval_json(group.final_value)},
                {"targets", json::array()}};
    for (std::size_t t = 0; t < group.targets.size(); ++t) {
      row["targets"].push_back(group_target_json(comparison, group, t));
    }
    result["groups"].push_back(std::move(row));
  }
  explain_nonfinite(result);
  return result;
}

}  // namespace hetsgd
