// The data of the charts: curves of a group, its histograms, and the performance profile.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>

#include "model/metric.hpp"
#include "result/compare_parts.hpp"
#include "result/performance_profile.hpp"
#include "result/report/parts.hpp"
#include "result/statistics.hpp"

namespace hetsgd::report {

namespace {

using nlohmann::json;

// --- the curves of a group on a common grid, as median and band over its runs --------------------

constexpr const char* kAxisNames[] = {"time_s", "samples_count", "bytes_sent"};
constexpr int kDigits = 5;

struct Point {
  double x = 0, y = 0;
};
using Curve = std::vector<Point>;  // x never decreases

// The position of a point of a result's curve on an axis.
double position(const json& result, const json& point, const std::string& axis) {
  const double measured = number_at(point, axis);
  if (axis != "bytes_sent" || !std::isnan(measured)) return measured;
  const double samples = number_at(result["summary"], "samples_count");
  if (!(samples > 0)) return 0;
  return number_at(result["summary"], "bytes_sent") * number_at(point, "samples_count") / samples;
}

std::vector<double> positions(const json& result, const std::string& axis) {
  std::vector<double> all;
  for (const json& point : result["curve"]) all.push_back(position(result, point, axis));
  return all;
}

Curve curve_of(const json& result, const std::string& metric, const std::vector<double>& x) {
  Curve curve;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double y = number_at(result["curve"][i], metric);
    if (std::isfinite(y)) curve.push_back({x[i], y});
  }
  return curve;
}

double value_at(const Curve& curve, double x) {
  if (curve.empty() || x < curve.front().x) return kNone;
  const auto after = std::upper_bound(curve.begin(), curve.end(), x,
                                      [](double at, const Point& point) { return at < point.x; });
  const Point& left = *(after - 1);
  if (after == curve.end() || left.x == x) return left.y;
  return left.y + (after->y - left.y) * (x - left.x) / (after->x - left.x);
}

// All positions of evaluations, thinned out evenly. The grid ends where fewer than half of the runs
// go on.
std::vector<double> grid_of(const std::vector<std::vector<double>>& runs, std::size_t points) {
  std::vector<double> all, ends;
  for (const std::vector<double>& run : runs) {
    if (run.empty()) continue;
    ends.push_back(run.back());
    all.insert(all.end(), run.begin(), run.end());
  }
  if (ends.empty()) return {};
  std::ranges::sort(ends);
  const double end = ends[ends.size() / 2];
  std::erase_if(all, [&](double x) { return x > end; });
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::vector<double> grid;
  for (const std::size_t i : spread(all.size(), points)) grid.push_back(all[i]);
  return grid;
}

json band(const std::vector<Curve>& curves, std::span<const double> grid) {
  json middle = json::array(), low = json::array(), high = json::array();
  for (const double x : grid) {
    std::vector<double> values;
    for (const Curve& curve : curves) {
      if (const double y = value_at(curve, x); !std::isnan(y)) values.push_back(y);
    }
    if (2 * values.size() < curves.size() || values.empty()) {
      for (json* list : {&middle, &low, &high}) list->push_back(nullptr);
      continue;
    }
    const auto [least, most] = std::ranges::minmax_element(values);
    middle.push_back(rounded(median(values), kDigits));
    low.push_back(rounded(*least, kDigits));
    high.push_back(rounded(*most, kDigits));
  }
  json result = {{"median", std::move(middle)}};
  if (curves.size() > 1) {
    result["low"] = std::move(low);
    result["high"] = std::move(high);
  }
  return result;
}

// --- histograms of a group, with the counts of all its runs together -----------------------------

constexpr std::int64_t kMostBins = 80;
constexpr int kShareDigits = 4;

using Counts = std::map<std::int64_t, double>;

// The smallest value up to which at least this share of the counts lies.
std::int64_t quantile(const Counts& counts, double total, double share) {
  double sum = 0;
  for (const auto& [value, count] : counts) {
    sum += count;
    if (sum >= share * total) return value;
  }
  return counts.rbegin()->first;
}

// Bins of equal width from the smallest value on, named by their lower ends.
json histogram(const Counts& counts) {
  const std::int64_t first = counts.begin()->first, last = counts.rbegin()->first;
  const std::int64_t width =
      counts.size() <= static_cast<std::size_t>(kMostBins) ? 1 : (last - first) / kMostBins + 1;
  double total = 0;
  Counts bins;
  for (const auto& [value, count] : counts) {
    total += count;
    bins[first + (value - first) / width * width] += count;
  }
  json document = {{"value", json::array()},
                   {"share", json::array()},
                   {"count", total},
                   {"width", width},
                   {"p50", quantile(counts, total, 0.5)},
                   {"p95", quantile(counts, total, 0.95)},
                   {"max", last}};
  for (const auto& [value, count] : bins) {
    document["value"].push_back(value);
    document["share"].push_back(rounded(count / total, kShareDigits));
  }
  return document;
}

// --- the performance profile of a report (performance_profile.hpp) -------------------------------

// A problem is a workload with a target that at least one group reached at the median. A method is
// a label, which means the same in all workloads. It is scored on the problems on which it ran.

struct Solver {
  std::vector<std::size_t> problems;
  std::vector<double> ratios;
};

double best_time(const Comparison& comparison, std::size_t t) {
  double best = std::numeric_limits<double>::infinity();
  for (const GroupRow& group : comparison.groups) {
    best = std::min(best, group.targets[t].time_s.median);
  }
  return best;
}

json solver_json(const std::string& label, const Solver& solver) {
  const auto solved =
      std::ranges::count_if(solver.ratios, [](double ratio) { return std::isfinite(ratio); });
  return {{"label", label},
          {"problems", solver.problems},
          {"ratios", solver.ratios},
          {"solved", solved},
          {"area", profile_area(solver.ratios)}};
}

}  // namespace

bool bytes_measured(const Workload& workload) {
  return std::ranges::all_of(workload.results, [](const LoadedResult& each) {
    const json& curve = each.json["curve"];
    return curve.empty() || curve.back().contains("bytes_sent");
  });
}

std::vector<std::string> curve_metrics(const Workload& workload) {
  std::vector<std::string> names = {workload.comparison.metric};
  for (const std::string& metric : metric_names()) {
    const bool has = std::ranges::any_of(workload.results, [&](const LoadedResult& each) {
      const json& curve = each.json["curve"];
      return !curve.empty() && curve.back().contains(metric);
    });
    if (has && metric != names.front()) names.push_back(metric);
  }
  return names;
}

nlohmann::json group_curves(const Workload& workload, const GroupRow& group, std::size_t points) {
  const GroupResults results = results_of(workload, group);
  json document = {{"x", json::object()}, {"y", json::object()}};
  for (const std::string axis : kAxisNames) {
    std::vector<std::vector<double>> places;
    for (const json* result : results) places.push_back(positions(*result, axis));
    const std::vector<double> grid = grid_of(places, points);
    json& x = document["x"][axis] = json::array();
    for (const double each : grid) x.push_back(rounded(each, kDigits + 1));
    for (const std::string& metric : curve_metrics(workload)) {
      std::vector<Curve> curves;
      for (std::size_t i = 0; i < results.size(); ++i) {
        curves.push_back(curve_of(*results[i], metric, places[i]));
      }
      document["y"][metric][axis] = band(curves, grid);
    }
  }
  return document;
}

nlohmann::json histograms(const GroupResults& results) {
  std::map<std::string, Counts> all;
  for (const json* result : results) {
    for (const auto& [name, counts] : (*result)["histograms"].items()) {
      for (const auto& [value, count] : counts.items()) {
        if (count > 0) all[name][std::stoll(value)] += count.get<double>();
      }
    }
  }
  json document = json::object();
  for (const auto& [name, counts] : all) document[name] = histogram(counts);
  return document;
}

nlohmann::json performance_profile(const std::vector<Workload>& workloads) {
  json problems = json::array(), solvers = json::array();
  std::map<std::string, Solver> by_label;
  std::vector<std::string> labels;  // in order of their first appearance
  for (std::size_t w = 0; w < workloads.size(); ++w) {
    const Comparison& comparison = workloads[w].comparison;
    for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
      const double best = best_time(comparison, t);
      if (!std::isfinite(best)) continue;
      for (const GroupRow& group : comparison.groups) {
        if (!by_label.contains(group.label)) labels.push_back(group.label);
        Solver& solver = by_label[group.label];
        solver.problems.push_back(problems.size());
        solver.ratios.push_back(ratio_to_best(group.targets[t].time_s.median, best));
      }
      problems.push_back(
          {{"workload", w}, {"target", comparison.targets[t].text()}, {"best_time_s", best}});
    }
  }
  for (const std::string& label : labels) solvers.push_back(solver_json(label, by_label[label]));
  return {{"problems", problems}, {"solvers", solvers}, {"end", kProfileEnd}};
}

}  // namespace hetsgd::report
