// The document of a report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.hpp"
#include "core/version.hpp"
#include "result/compare_parts.hpp"
#include "result/report/parts.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace report {
namespace {

using nlohmann::json;

// The budget of numbers of all curves together, at about 6 bytes each.
constexpr std::size_t kCurveNumbers = 330000;
constexpr std::size_t kFewestPoints = 12, kMostPoints = 120;
constexpr std::size_t kAxes = 3;

json group_details(const Workload& workload, const GroupRow& group, std::size_t points) {
  const GroupResults results = results_of(workload, group);
  const auto place = static_cast<std::size_t>(&group - workload.comparison.groups.data());
  return {{"place", place},
          {"curves", group_curves(workload, group, points)},
          {"batch_sizes", batch_sizes(results)},
          {"workers", worker_shares(results)},
          {"waited_for", waited_for(results)},
          {"survival", survival(results)},
          {"histograms", histograms(results)}};
}

// The value at the pointer; null if the result lacks it.
json at_or_null(const json& object, const char* pointer) {
  const json::json_pointer place(pointer);
  return object.contains(place) ? object[place] : json(nullptr);
}

json environment_of(const json& result) {
  static const std::vector<std::pair<const char*, const char*>> kParts = {
      {"host", "/environment/hostname"},
      {"processor", "/environment/cpu_model"},
      {"cores", "/environment/cores"},
      {"cores available", "/environment/cores_available"},
      {"memory_bytes", "/environment/memory_bytes"},
      {"system", "/environment/os"},
      {"kernel", "/environment/kernel"},
      {"measured on", "/environment/evaluation_device"},
      {"convolutions", "/environment/convolution_library"},
      {"MPI", "/cluster/machine/mpi_library"},
      {"version", "/tool/version"},
      {"revision", "/tool/git_revision"},
      {"changed since", "/tool/git_dirty"},
      {"build", "/environment/build/build_type"},
      {"compiler", "/environment/build/compiler"},
      {"flags", "/environment/build/compiler_flags"}};
  json rows = json::array();
  for (const auto& [name, place] : kParts) {
    const json value = at_or_null(result, place);
    if (!value.is_null()) rows.push_back({name, shown(value)});
  }
  for (const auto& [name, value] : result["environment"]["variables"].items()) {
    rows.push_back({name, shown(value)});
  }
  return rows;
}

// {"options": [name], "groups": [{"values": [by option], "own": ["name=value"]}]}, with groups in
// the order of their first files. `options` are those in which groups differ. `own` are options of
// an algorithm: they have one value, but not all groups have them.
json settings(const Workload& workload, const std::vector<const GroupRow*>& groups) {
  const std::vector<std::string>& options = workload.comparison.varying;
  std::vector<json> configs;
  std::map<std::string, std::size_t> groups_with;  // by option
  for (const GroupRow* group : groups) {
    configs.push_back(telling_options(workload.results[group->runs.front()].json));
    configs.back().erase("algorithm");  // every label has it
    for (const auto& [name, value] : configs.back().items()) ++groups_with[name];
  }
  json rows = json::array();
  for (json& config : configs) {
    json row = {{"values", json::array()}, {"own", json::array()}};
    for (const std::string& name : options) {
      row["values"].push_back(config.contains(name) ? json(shown(config[name])) : json(nullptr));
      config.erase(name);
    }
    for (const auto& [name, value] : config.items()) {
      if (groups_with[name] == groups.size()) continue;
      row["own"].push_back(fmt::format("{}={}", name, shown(value)));
    }
    rows.push_back(std::move(row));
  }
  return {{"options", options}, {"groups", std::move(rows)}};
}

// The different environments, with the number of their runs.
json environments(const std::vector<Workload>& workloads) {
  std::vector<json> rows;
  for (const Workload& workload : workloads) {
    for (const LoadedResult& each : workload.results) rows.push_back(environment_of(each.json));
  }
  json all = json::array();
  for (const std::vector<std::size_t>& places : places_by_key(rows)) {
    all.push_back({{"runs", places.size()}, {"rows", rows[places.front()]}});
  }
  return all;
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
  const std::vector<const GroupRow*> groups = comparison.groups_by_file();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    document["groups"][i].update(group_details(workload, *groups[i], points));
  }
  document["settings"] = settings(workload, groups);
  return document;
}

// The points per curve with which all curves keep to their budget.
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
  // Powers of ten with exponents >= 0 are exact, and those below are not.
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
  report::add_step_efficiency(results);
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
