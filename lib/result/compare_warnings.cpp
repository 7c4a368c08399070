// What makes a comparison unfair or a difference doubtful.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "result/compare_parts.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

constexpr std::size_t kEnoughSeeds = 5;
// The time to a target that is reached earlier is exact to 5 % at best.
constexpr double kEnoughEvaluations = 20;
constexpr std::size_t kMostNames = 6;  // in one sentence

void warn_about_workloads(const std::vector<LoadedResult>& results, Comparison& comparison) {
  for (const EqualPart& part : equal_parts()) {
    const json first = value_of(part, results.front().json);
    const auto other = std::find_if(
        results.begin(), results.end(),
        [&](const LoadedResult& result) { return value_of(part, result.json) != first; });
    if (other == results.end()) continue;
    comparison.warnings.push_back(fmt::format("different workloads: {} and {} differ in {}",
                                              results.front().path, other->path, part.what));
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
  for (const GroupRow& group : comparison.groups) {
    if (group.diverged > 0) {
      comparison.warnings.push_back(fmt::format("{}: {} of {} runs diverged", group.label,
                                                group.diverged, group.runs.size()));
    }
  }
  for (const RunRow& run : comparison.runs) {
    if (run.status == "completed" || run.status == "target_reached" || run.status == "diverged") {
      continue;
    }
    comparison.warnings.push_back(fmt::format("{}: status {}", run.path, run.status));
  }
}

// What every algorithm should have been given alike when its learning rate was chosen.
std::string budget_text(const json& tuning) {
  if (tuning.is_null()) return "not tuned";
  std::vector<std::string> grid;
  for (const json& rate : tuning["grid"]) grid.push_back(rate.dump());
  return fmt::format("{} trials for {} on {} rows, grid {}", tuning["trials"].dump(),
                     tuning["goal"].get<std::string>(), tuning["validation_rows"].dump(),
                     fmt::join(grid, ","));
}

void warn_about_tuning(Comparison& comparison) {
  std::map<std::string, std::set<std::string>> labels_by_budget;
  std::set<std::string> doubts;
  for (const RunRow& run : comparison.runs) {
    labels_by_budget[budget_text(run.tuning)].insert(run.label);
    if (run.tuning.is_null()) continue;
    if (run.tuning["edge_of_grid"] == true) {
      doubts.insert(
          fmt::format("{}: its learning rate {} lies at the edge of the grid, a better "
                      "one may lie beyond",
                      run.label, run.tuning["learning_rate"].dump()));
    }
    if (!run.tuning["differs"].empty()) {
      doubts.insert(
          fmt::format("{}: tuned under other options than it ran with: {}", run.label,
                      fmt::join(run.tuning["differs"].get<std::vector<std::string>>(), ", ")));
    }
  }
  std::set<std::string> algorithms;
  for (const RunRow& run : comparison.runs) algorithms.insert(run.algorithm);
  const bool none_tuned = labels_by_budget.size() == 1 && comparison.runs.front().tuning.is_null();
  if (none_tuned && algorithms.size() > 1) {
    comparison.warnings.push_back(
        "no learning rate was tuned: the order of the algorithms may be that of their rates "
        "(hetsgd tune gives all the same trials)");
  }
  if (labels_by_budget.size() > 1) {
    std::vector<std::string> parts;
    for (const auto& [budget, labels] : labels_by_budget) {
      parts.push_back(fmt::format("{} ({})", fmt::join(labels, ", "), budget));
    }
    comparison.warnings.push_back(
        fmt::format("learning rates were tuned with unequal budgets: {}", fmt::join(parts, "; ")));
  }
  comparison.warnings.insert(comparison.warnings.end(), doubts.begin(), doubts.end());
}

void warn_about_resolution(Comparison& comparison) {
  for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
    std::vector<std::string> early;
    for (const GroupRow& group : comparison.groups) {
      const double evaluation = group.targets[t].evaluation;
      if (evaluation < kEnoughEvaluations) {
        early.push_back(fmt::format("{} {:.0f}", group.label, std::floor(evaluation)));
      }
    }
    if (early.empty()) continue;
    const std::size_t more = early.size() - std::min(early.size(), kMostNames);
    early.resize(early.size() - more);
    comparison.warnings.push_back(fmt::format(
        "{} is reached within the first {:.0f} evaluations ({}{}): its times are coarse, a smaller "
        "--evaluate-every measures more often",
        comparison.targets[t].text(), kEnoughEvaluations, fmt::join(early, ", "),
        more > 0 ? fmt::format(" and {} more", more) : ""));
  }
}

}  // namespace

const std::vector<EqualPart>& equal_parts() {
  using pointer = json::json_pointer;
  static const std::vector<EqualPart> parts = {
      {"the training data", pointer("/dataset/train/content_hash")},
      {"the test data", pointer("/dataset/test/content_hash")},
      {"the model's layers", pointer("/model/layer_sizes")},
      {"the cluster", pointer("/cluster/name")},
      {"the device profile", pointer("/cluster/device_profile")},
      {"the server's profile", pointer("/cluster/server_profile")},
      {"the network", pointer("/cluster/network")},
      {"the charged sizes", pointer("/cluster/charge")},
      {"the stragglers", pointer("/stragglers")},
      {"the number of workers", pointer("/config/workers")},
      {"the speeds", pointer("/config/speed")},
      {"the samples between evaluations", pointer("/config/evaluate_every"), false},
      {"the evaluated test rows", pointer("/config/evaluate_samples"), false},
      {"the mega-batch", pointer("/config/mega_batch"), false}};
  return parts;
}

json value_of(const EqualPart& part, const json& result) {
  json found = result.contains(part.place) ? result[part.place] : json(nullptr);
  return found == 0 ? json("auto") : found;  // as earlier versions spelled it
}

void add_warnings(const std::vector<LoadedResult>& results, Comparison& comparison) {
  warn_about_workloads(results, comparison);
  warn_about_seeds(comparison);
  warn_about_resolution(comparison);
  warn_about_tuning(comparison);
  warn_about_status(comparison);
}

}  // namespace hetsgd
