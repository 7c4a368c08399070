// The document of a report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/version.hpp"
#include "result/compare_parts.hpp"
#include "result/report/parts.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace report {
namespace {

using nlohmann::json;

// Numbers of all curves together, at about 6 bytes each.
constexpr std::size_t kCurveNumbers = 330000;
constexpr std::size_t kFewestPoints = 12, kMostPoints = 120;
constexpr std::size_t kAxes = 3;

// As comparison_json() has them.
std::vector<const GroupRow*> by_first_file(const Comparison& comparison) {
  std::vector<const GroupRow*> groups;
  for (const GroupRow& group : comparison.groups) groups.push_back(&group);
  std::sort(groups.begin(), groups.end(),
            [](const GroupRow* a, const GroupRow* b) { return a->runs.front() < b->runs.front(); });
  return groups;
}

json group_details(const Workload& workload, const GroupRow& group, std::size_t points) {
  const GroupResults results = results_of(workload, group);
  const auto place = static_cast<std::size_t>(&group - workload.comparison.groups.data());
  return {{"place", place},
          {"curves", group_curves(workload, group, points)},
          {"batch_sizes", batch_sizes(results)},
          {"workers", worker_shares(results)},
          {"waited_for", waited_for(results)},
          {"histograms", histograms(results)}};
}

json workload_json(const Workload& workload, std::size_t points) {
  const Comparison& comparison = workload.comparison;
  json document = comparison_json(comparison);
  document["name"] = workload.name;
  document["about"] = workload.about;
  document["facts"] = workload.facts;
  document["metrics"] = curve_metrics(workload);
  document["bytes_measured"] = bytes_measured(workload);
  document["higher_is_better"] = higher_is_better(comparison.metric);
  document["targets"] = json::array();
  for (const Target& target : comparison.targets) document["targets"].push_back(target.text());
  const std::vector<const GroupRow*> groups = by_first_file(comparison);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    document["groups"][i].update(group_details(workload, *groups[i], points));
  }
  document["settings"] = settings(workload, groups);
  return document;
}

// So that all curves keep to their budget.
std::size_t points_per_curve(const std::vector<Workload>& workloads) {
  std::size_t curves = 0;
  for (const Workload& workload : workloads) {
    const std::size_t each = kAxes * std::max<std::size_t>(1, curve_metrics(workload).size());
    for (const GroupRow& group : workload.comparison.groups) {
      curves += each * (group.runs.size() > 1 ? 3 : 1);
    }
  }
  return std::clamp(kCurveNumbers / std::max<std::size_t>(1, curves), kFewestPoints, kMostPoints);
}

}  // namespace

GroupResults results_of(const Workload& workload, const GroupRow& group) {
  GroupResults results;
  for (const std::size_t run : group.runs) results.push_back(&workload.results[run].json);
  return results;
}

double rounded(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  // Powers of ten from 0 on are exact, those below are not.
  if (exponent < digits) {
    const double unit = std::pow(10.0, digits - 1 - exponent);
    return std::isfinite(unit) ? std::round(value * unit) / unit : value;
  }
  const double unit = std::pow(10.0, exponent - digits + 1);
  return std::round(value / unit) * unit;
}

std::vector<std::size_t> spread(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen;
  const std::size_t kept = std::min(count, most);
  for (std::size_t i = 0; i < kept; ++i) {
    chosen.push_back(kept == count ? i : i * (count - 1) / (kept - 1));
  }
  return chosen;
}

}  // namespace report

nlohmann::json report_data(std::vector<LoadedResult> results, const ReportOptions& options) {
  using nlohmann::json;
  if (results.empty()) throw usage_error("report: found no result files, expected at least one");
  const std::size_t runs = results.size();
  std::vector<Workload> workloads = split_workloads(std::move(results));
  compare_workloads(workloads, {.targets = options.targets, .reference = options.reference});
  const std::size_t points = report::points_per_curve(workloads);
  json document = {{"title", options.title},
                   {"about", options.about},
                   {"program", fmt::format("hetsgd {} ({})", version(), git_revision())},
                   {"runs", runs},
                   {"notes", options.notes},
                   {"workloads", json::array()},
                   {"profile", report::performance_profile(workloads)},
                   {"environments", report::environments(workloads)}};
  for (const Workload& workload : workloads) {
    document["workloads"].push_back(report::workload_json(workload, points));
  }
  explain_nonfinite(document);
  escape_bytes(document);
  return document;
}

}  // namespace hetsgd
