#include "result/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/error.hpp"
#include "result/time_to_accuracy.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

constexpr double kMissed = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kEnoughSeeds = 5;

// What a run does, apart from its seed. Paths do not count (the content hash does), nor what cannot
// change a result.
json identity(const json& result) {
  json config = result["config"];
  for (const char* key : {"seed", "train", "test", "cache", "cache_directory", "host_threads"}) {
    config.erase(key);
  }
  return {{"config", config},
          {"train", result["dataset"]["train"].value("content_hash", "")},
          {"test", result["dataset"]["test"].value("content_hash", "")}};
}

std::vector<Evaluation> evaluations(const json& result, const std::string& metric) {
  std::vector<Evaluation> all;
  for (const json& point : result["curve"]) {
    if (!point.contains(metric) || !point[metric].is_number()) continue;
    all.push_back({point["time_s"], point["samples_count"], point["updates"], point[metric]});
  }
  return all;
}

RunTarget run_target(const json& result, const Target& target) {
  const TimeToAccuracy found =
      time_to_accuracy(evaluations(result, target.metric), target.at_least, target.value);
  RunTarget row{kMissed, kMissed, kMissed, kMissed};
  if (found.first) {
    row.time_s = found.first->time_s;
    row.samples = static_cast<double>(found.first->samples_count);
    row.updates = static_cast<double>(found.first->updates);
  }
  if (found.smoothed) row.smoothed_time_s = found.smoothed->time_s;
  return row;
}

double number_or_none(const json& object, const std::string& key) {
  return object.is_object() && object.contains(key) && object[key].is_number()
             ? object[key].get<double>()
             : kNone;
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
  for (const char* metric : {"p1", "accuracy", "auc"}) {
    if (!evaluations(results.front().json, metric).empty()) return metric;
  }
  return "test_loss";
}

std::string shown(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Groups of one algorithm are told apart by the options in which they differ.
void label_groups(const std::vector<LoadedResult>& results, Comparison& comparison) {
  std::map<std::string, std::vector<GroupRow*>> by_algorithm;
  for (GroupRow& group : comparison.groups) by_algorithm[group.algorithm].push_back(&group);
  for (auto& [algorithm, groups] : by_algorithm) {
    std::set<std::string> keys;
    const json& first = results[groups.front()->runs.front()].json["config"];
    for (const GroupRow* group : groups) {
      const json& config = results[group->runs.front()].json["config"];
      for (const auto& [key, value] : config.items()) {
        if (key != "seed" && (!first.contains(key) || first[key] != value)) keys.insert(key);
      }
    }
    for (GroupRow* group : groups) {
      const json& config = results[group->runs.front()].json["config"];
      std::vector<std::string> parts;
      for (const std::string& key : keys) {
        if (config.contains(key)) parts.push_back(fmt::format("{}={}", key, shown(config[key])));
      }
      group->label =
          parts.empty() ? algorithm : fmt::format("{} ({})", algorithm, fmt::join(parts, ", "));
      for (const std::size_t run : group->runs) comparison.runs[run].label = group->label;
    }
  }
}

// NaN as soon as one of the values is.
Interval interval_of(const std::vector<double>& values) {
  if (std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); })) {
    return {kNone, kNone, kNone};
  }
  return bootstrap_median(values);
}

template <class Value>
std::vector<double> values_of(const Comparison& comparison, const GroupRow& group, Value value) {
  std::vector<double> values;
  for (const std::size_t run : group.runs) values.push_back(value(comparison.runs[run]));
  return values;
}

void fill_group(const Comparison& comparison, GroupRow& group) {
  group.samples_per_s = interval_of(
      values_of(comparison, group, [](const RunRow& run) { return run.samples_per_s; }));
  group.final_value =
      interval_of(values_of(comparison, group, [](const RunRow& run) { return run.final_value; }));
  for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
    const auto values = [&](double RunTarget::*member) {
      return values_of(comparison, group,
                       [&](const RunRow& run) { return run.targets[t].*member; });
    };
    GroupTarget target;
    const std::vector<double> times = values(&RunTarget::time_s);
    target.reached = static_cast<std::size_t>(
        std::count_if(times.begin(), times.end(), [](double x) { return std::isfinite(x); }));
    target.time_s = bootstrap_median(times);
    target.smoothed_time_s = bootstrap_median(values(&RunTarget::smoothed_time_s));
    target.samples = median(values(&RunTarget::samples));
    target.updates = median(values(&RunTarget::updates));
    group.targets.push_back(target);
  }
}

double ratio(double time_s, double reference_s) {
  if (std::isinf(time_s) && std::isinf(reference_s)) return kNone;
  if (time_s == reference_s) return 1;  // also when both were there from the start
  return time_s / reference_s;
}

void relate_to_reference(Comparison& comparison) {
  const auto reference = std::find_if(comparison.groups.begin(), comparison.groups.end(),
                                      [](const GroupRow& group) { return group.reference; });
  for (GroupRow& group : comparison.groups) {
    for (std::size_t t = 0; t < group.targets.size(); ++t) {
      group.targets[t].ratio =
          ratio(group.targets[t].time_s.median, reference->targets[t].time_s.median);
    }
  }
}

// One sentence for each thing that should be equal and is not.
void warn_about_workloads(const std::vector<LoadedResult>& results, Comparison& comparison) {
  static const std::vector<std::pair<std::string, std::string>> kEqual = {
      {"the training data", "/dataset/train/content_hash"},
      {"the test data", "/dataset/test/content_hash"},
      {"the model's layers", "/model/layer_sizes"},
      {"the cluster", "/cluster/name"},
      {"the device profile", "/cluster/device_profile"},
      {"the network", "/cluster/network"},
      {"the charged sizes", "/cluster/charge"},
      {"the stragglers", "/stragglers"},
      {"the number of workers", "/config/workers"},
      {"the speeds", "/config/speed"},
      {"the samples between evaluations", "/config/evaluate_every"},
      {"the evaluated test rows", "/config/evaluate_samples"},
      {"the mega-batch", "/config/mega_batch"}};
  for (const auto& [what, pointer] : kEqual) {
    const json::json_pointer place(pointer);
    const auto value = [&](const LoadedResult& result) {
      return result.json.contains(place) ? result.json[place] : json(nullptr);
    };
    const auto other = std::find_if(
        results.begin(), results.end(),
        [&](const LoadedResult& result) { return value(result) != value(results.front()); });
    if (other == results.end()) continue;
    comparison.warnings.push_back(fmt::format("different workloads: {} and {} differ in {}",
                                              results.front().path, other->path, what));
  }
}

void warn_about_seeds(Comparison& comparison) {
  std::vector<std::string> few;
  for (const GroupRow& group : comparison.groups) {
    std::set<std::uint64_t> seeds;
    for (const std::size_t run : group.runs) {
      if (!seeds.insert(comparison.runs[run].seed).second) {
        comparison.warnings.push_back(fmt::format("{}: seed {} occurs more than once", group.label,
                                                  comparison.runs[run].seed));
      }
    }
    if (seeds.size() < kEnoughSeeds) few.push_back(fmt::format("{} {}", group.label, seeds.size()));
  }
  if (few.empty()) return;
  comparison.warnings.push_back(
      fmt::format("fewer than {} seeds ({}): the differences may be chance", kEnoughSeeds,
                  fmt::join(few, ", ")));
}

void warn_about_status(Comparison& comparison) {
  for (const RunRow& run : comparison.runs) {
    if (run.status == "completed" || run.status == "target_reached") continue;
    comparison.warnings.push_back(fmt::format("{}: status {}", run.path, run.status));
  }
}

}  // namespace

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
  comparison.metric = metric_of_comparison(results, comparison.targets);

  const std::string reference =
      options.reference.empty() ? results.front().path : options.reference;
  std::vector<json> identities;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const json& result = results[i].json;
    RunRow run;
    run.path = results[i].path;
    run.algorithm = result["config"]["algorithm"];
    run.status = result["status"];
    run.seed = result["config"]["seed"];
    run.samples_per_s = number_or_none(result["summary"], "samples_per_s");
    run.final_value = number_or_none(result["summary"]["final"], comparison.metric);
    for (const Target& target : comparison.targets)
      run.targets.push_back(run_target(result, target));
    comparison.runs.push_back(std::move(run));

    const json key = identity(result);
    const auto place = static_cast<std::size_t>(
        std::find(identities.begin(), identities.end(), key) - identities.begin());
    if (place == identities.size()) {
      identities.push_back(key);
      comparison.groups.emplace_back().algorithm = comparison.runs.back().algorithm;
    }
    comparison.groups[place].runs.push_back(i);
    if (results[i].path == reference) comparison.groups[place].reference = true;
  }
  const bool found = std::any_of(comparison.groups.begin(), comparison.groups.end(),
                                 [](const GroupRow& group) { return group.reference; });
  if (!found) {
    throw usage_error("--reference: found \"{}\", expected one of the compared files", reference);
  }
  label_groups(results, comparison);
  for (GroupRow& group : comparison.groups) fill_group(comparison, group);
  relate_to_reference(comparison);
  warn_about_workloads(results, comparison);
  warn_about_seeds(comparison);
  warn_about_status(comparison);
  return comparison;
}

}  // namespace hetsgd
