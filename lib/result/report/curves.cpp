// Curves of a group on a common grid: median and band over its runs.
#include <algorithm>
#include <cmath>
#include <span>

#include "model/metric.hpp"
#include "result/compare_parts.hpp"
#include "result/report/parts.hpp"
#include "result/statistics.hpp"

namespace hetsgd::report {
namespace {

using nlohmann::json;

constexpr const char* kAxisNames[] = {"time_s", "samples_count", "bytes_sent"};
constexpr int kDigits = 5;

struct Point {
  double x = 0, y = 0;
};
using Curve = std::vector<Point>;  // x never falls

double number_at(const json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : kNone;
}

// Where a point of a result's curve lies on an axis.
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

// All positions of evaluations up to where fewer than half of the runs go on, thinned out evenly.
std::vector<double> grid_of(const std::vector<std::vector<double>>& runs, std::size_t points) {
  std::vector<double> all, ends;
  for (const std::vector<double>& run : runs) {
    if (run.empty()) continue;
    ends.push_back(run.back());
    all.insert(all.end(), run.begin(), run.end());
  }
  if (ends.empty()) return {};
  std::sort(ends.begin(), ends.end());
  const double end = ends[ends.size() / 2];
  std::erase_if(all, [&](double x) { return x > end; });
  std::sort(all.begin(), all.end());
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
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
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

}  // namespace

bool bytes_measured(const Workload& workload) {
  return std::all_of(workload.results.begin(), workload.results.end(),
                     [](const LoadedResult& each) {
                       const json& curve = each.json["curve"];
                       return curve.empty() || curve.back().contains("bytes_sent");
                     });
}

std::vector<std::string> curve_metrics(const Workload& workload) {
  std::vector<std::string> names = {workload.comparison.metric};
  for (const std::string& metric : metric_names()) {
    const bool has = std::any_of(workload.results.begin(), workload.results.end(),
                                 [&](const LoadedResult& each) {
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

}  // namespace hetsgd::report
