// Warnings about facts that make a comparison unfair or a difference doubtful.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "result/compare_parts.hpp"
#include "result/result.hpp"
#include "result/summary.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

constexpr std::size_t kEnoughSeeds = 6;  // the least number of pairs that can_show()
constexpr std::size_t kMostNames = 6;    // in one sentence

template <class... Args>
void add(Comparison& comparison, fmt::format_string<Args...> text, Args&&... args) {
  comparison.warnings.push_back(fmt::format(text, std::forward<Args>(args)...));
}

// "a, b and 2 more" of labels.
std::string listed(const std::vector<std::string>& labels) {
  const std::size_t shown = std::min(labels.size(), kMostNames);
  return fmt::format(
      "{}{}", fmt::join(labels.begin(), labels.begin() + shown, ", "),
      labels.size() > shown ? fmt::format(" and {} more", labels.size() - shown) : "");
}

void warn_about_workloads(const std::vector<LoadedResult>& results, Comparison& comparison) {
  for (const EqualPart& part : equal_parts()) {
    const json first = value_of(part, results.front().json);
    const auto other = std::ranges::find_if(
        results, [&](const LoadedResult& result) { return value_of(part, result.json) != first; });
    if (other == results.end()) continue;
    add(comparison, "different workloads: {} and {} differ in {}", results.front().path,
        other->path, part.what);
  }
}

// Simulated runs of one seed are equal in all but dates; real ones differ in their times.
bool are_copies(const json& one, const json& other) {
  return one["curve"] == other["curve"] && one["workers"] == other["workers"];
}

// Warns about seeds that occur more than once in the group, and about runs that are counted several
// times. Returns the number of different seeds.
std::size_t warn_about_repeats(const std::vector<LoadedResult>& results, const GroupRow& group,
                               Comparison& comparison) {
  std::map<std::uint64_t, std::vector<std::size_t>> different;  // runs by seed
  std::vector<std::string> copies;
  for (const std::size_t run : group.runs) {
    std::vector<std::size_t>& known = different[comparison.runs[run].seed];
    const auto same = std::ranges::find_if(known, [&](std::size_t other) {
      return are_copies(results[other].json, results[run].json);
    });
    if (same == known.end()) {
      known.push_back(run);
    } else {
      copies.push_back(fmt::format("{} of {}", results[run].path, results[*same].path));
    }
  }
  if (!copies.empty()) {
    add(comparison,
        "{}: {} of {} results are copies, with the seed and the numbers of another one ({}): a run "
        "that is counted several times shows nothing, so leave them out",
        group.label, copies.size(), group.runs.size(), listed(copies));
  }
  for (const auto& [seed, runs] : different) {
    if (runs.size() > 1)
      add(comparison, "{}: seed {} occurs {} times", group.label, seed, runs.size());
  }
  return different.size();
}

void warn_about_seeds(const std::vector<LoadedResult>& results, Comparison& comparison) {
  std::vector<std::string> few;
  for (const GroupRow& group : comparison.groups) {
    const std::size_t seeds = warn_about_repeats(results, group, comparison);
    if (seeds < kEnoughSeeds) few.push_back(fmt::format("{} {}", group.label, seeds));
  }
  if (few.empty()) return;
  const bool paired = std::ranges::any_of(comparison.groups, [](const GroupRow& group) {
    return group.paired && !group.reference && !can_show(group.runs.size());
  });
  add(comparison, "fewer than {} seeds ({}): {}", kEnoughSeeds, fmt::join(few, ", "),
      paired ? "so few pairs can show no difference, since a signed-rank test of five has no "
               "p-value below 0.0625"
             : "the differences may be chance");
}

void warn_about_status(Comparison& comparison) {
  for (const GroupRow& group : comparison.groups) {
    if (group.diverged > 0) {
      add(comparison, "{}: {} of {} runs diverged", group.label, group.diverged, group.runs.size());
    }
  }
  for (const RunRow& run : comparison.runs) {
    if (is_done(run.status)) continue;
    add(comparison, "{}: the run is not complete, its status is {}", run.path, run.status);
  }
}

// The tuning budget, which every algorithm should have been given alike.
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
      doubts.insert(fmt::format(
          "{}: its runs and the trials of its tuning differ in these options: {}", run.label,
          fmt::join(run.tuning["differs"].get<std::vector<std::string>>(), ", ")));
    }
  }
  std::set<std::string> algorithms;
  for (const RunRow& run : comparison.runs) algorithms.insert(run.algorithm);
  const bool none_tuned = labels_by_budget.size() == 1 && comparison.runs.front().tuning.is_null();
  if (none_tuned && algorithms.size() > 1) {
    add(comparison,
        "no learning rate was tuned: the ranking may only show which algorithm suits its learning "
        "rate (hetsgd tune gives all the same trials)");
  }
  if (labels_by_budget.size() > 1) {
    std::vector<std::string> parts;
    for (const auto& [budget, labels] : labels_by_budget) {
      parts.push_back(fmt::format("{} ({})", fmt::join(labels, ", "), budget));
    }
    add(comparison, "learning rates were tuned with unequal budgets: {}", fmt::join(parts, "; "));
  }
  comparison.warnings.insert(comparison.warnings.end(), doubts.begin(), doubts.end());
}

// Warns about a target that is crossed and lost again, or held only at the very end of a run.
void warn_about_holding(Comparison& comparison) {
  for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
    for (const GroupRow& group : comparison.groups) {
      const GroupTarget& target = group.targets[t];
      const auto is_faster = [&](const GroupRow& other) {
        return other.targets[t].time_s.median < target.time_s.median;
      };
      if (group.reference && std::isinf(target.time_s.median) &&
          std::ranges::any_of(comparison.groups, is_faster)) {
        add(comparison,
            "{}, the reference, holds {} in {} of {} runs: speed-ups over it are infinite",
            group.label, comparison.targets[t].text(), target.reached, group.runs.size());
      }
      if (target.misses_at_end > 0) {
        add(comparison, "{}: the final value misses {} in {} of {} runs that crossed it",
            group.label, comparison.targets[t].text(), target.misses_at_end, group.runs.size());
      }
      if (target.uncertain > 0) {
        add(comparison,
            "{}: {} of {} runs end two evaluations after they reach {}, and one of these misses "
            "it. Three evaluations instead of five decide whether the target is held.",
            group.label, target.uncertain, group.runs.size(), comparison.targets[t].text());
      }
    }
  }
}

void warn_about_resolution(Comparison& comparison) {
  for (std::size_t t = 0; t < comparison.targets.size(); ++t) {
    std::vector<std::string> early;
    for (const GroupRow& group : comparison.groups) {
      const double evaluation = group.targets[t].evaluation;
      if (evaluation < static_cast<double>(kFineEvaluations)) {
        early.push_back(fmt::format("{} {:.0f}", group.label, std::floor(evaluation)));
      }
    }
    if (early.empty()) continue;
    add(comparison,
        "{} is reached within the first {} evaluations ({}): its times are coarse. A smaller "
        "--evaluate-every makes them finer, down to one round of a method (such as a mega-batch)",
        comparison.targets[t].text(), kFineEvaluations, listed(early));
  }
}

const json& first_result(const std::vector<LoadedResult>& results, const GroupRow& group) {
  return results[group.runs.front()].json;
}

// The measured samples per step of a worker. None if the result lacks it, or if the method varies
// batch sizes during a run by design.
std::optional<double> samples_per_step(const json& result) {
  for (const json& event : result["events"]) {
    if (event["type"] != "merge" || !event.contains("batch_size")) continue;
    const json& sizes = event["batch_size"];
    if (std::ranges::any_of(sizes, [&](const json& b) { return b != sizes[0]; })) {
      return std::nullopt;
    }
  }
  double samples = 0, steps = 0;
  for (const json& worker : result["workers"]) {
    samples += worker["samples"].get<double>();
    steps += worker["steps"].get<double>();
  }
  return steps > 0 ? std::optional(samples / steps) : std::nullopt;
}

// Warns about groups with the same --batch-size whose steps learn from different numbers of
// samples, because their times then compare batch sizes as well as methods. A user who sets
// different batch sizes knows that already.
void warn_about_step_sizes(const std::vector<LoadedResult>& results, Comparison& comparison) {
  std::map<std::string, std::map<double, std::vector<std::string>>> sizes;  // by --batch-size
  for (const GroupRow& group : comparison.groups) {
    const json& result = first_result(results, group);
    const std::optional<double> samples = samples_per_step(result);
    if (!samples) continue;
    auto& of_option = sizes[config_value(result, "batch_size").dump()];
    // The tolerance of 10 % allows for incomplete last batches of an epoch or run.
    const auto near = std::ranges::find_if(of_option, [&](const auto& each) {
      return std::abs(each.first - *samples) <= 0.1 * std::max(each.first, *samples);
    });
    (near == of_option.end() ? of_option[*samples] : near->second).push_back(group.label);
  }
  for (const auto& [option, of_option] : sizes) {
    if (of_option.size() < 2) continue;
    std::vector<std::string> parts;
    for (const auto& [samples, labels] : of_option) {
      parts.push_back(fmt::format("{:.3g}: {}", samples, listed(labels)));
    }
    add(comparison,
        "the groups differ in the samples per step of a worker, although all have "
        "--batch-size {} ({}): their times compare batch sizes as well as methods",
        option, fmt::join(parts, "; "));
  }
}

// rna and eager-* reduce on the hosts, so their copies between GPU and host are charged by default.
// Without that charge their rounds would be faster than the methods really are. Other algorithms
// reduce on the GPUs. The defaults therefore differ, and a comparison warns of it.
void warn_about_staging(const std::vector<LoadedResult>& results, Comparison& comparison) {
  std::vector<std::string> charged;
  for (const GroupRow& group : comparison.groups) {
    const json& result = first_result(results, group);
    const bool simulated = result["cluster"]["virtual_time"] == true;
    if (simulated && config_value(result, "staging") == true) charged.push_back(group.label);
  }
  if (charged.empty() || charged.size() == comparison.groups.size()) return;
  add(comparison,
      "only {} {} charged for copies between GPU and host memory (--staging); "
      "--no-staging removes the charge",
      listed(charged), charged.size() == 1 ? "is" : "are");
}

// Warns about real times that other programs have disturbed, as the run itself has recorded.
void warn_about_load(const std::vector<LoadedResult>& results, Comparison& comparison) {
  std::vector<std::string> slowed;
  for (const LoadedResult& each : results) {
    const json load = each.json["environment"].value("load", json(nullptr));
    if (load.is_null()) continue;
    HostLoad found{.start = load["start"], .idle_cores = load["idle_cores"]};
    if (!load["end"].is_null()) found.end = load["end"].get<double>();
    if (found.slows_down()) slowed.push_back(each.path);
  }
  if (slowed.empty()) return;
  add(comparison, "other programs took cores from {} of {} runs ({}): their times are not reliable",
      slowed.size(), results.size(), listed(slowed));
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
  // The text `source` explains the numbers of a profile, and makes no difference.
  const auto forget = [](json& value) {
    if (value.is_object()) value.erase("source");
  };
  forget(found);
  if (found.is_array()) std::ranges::for_each(found, forget);
  return found == 0 ? json("auto") : found;  // 0 is the spelling of earlier versions
}

void add_warnings(const std::vector<LoadedResult>& results, Comparison& comparison) {
  warn_about_workloads(results, comparison);
  warn_about_step_sizes(results, comparison);
  warn_about_staging(results, comparison);
  warn_about_load(results, comparison);
  warn_about_seeds(results, comparison);
  warn_about_holding(comparison);
  warn_about_resolution(comparison);
  warn_about_tuning(comparison);
  warn_about_status(comparison);
}

}  // namespace hetsgd
