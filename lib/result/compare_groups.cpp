// Which runs belong together, and what their groups are called.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "result/compare_parts.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// Options that tell no groups apart: the seed; paths (the content hash counts); and what cannot
// change a result. scripts/hetsgd_results.py reads the same file.
const std::set<std::string>& ignored_options() {
  static const std::set<std::string> keys =
      json::parse(ungrouped_options()).get<std::set<std::string>>();
  return keys;
}

// What a run does, apart from its seed.
json identity(const json& result) {
  return {{"config", telling_options(result)},
          {"train", result["dataset"]["train"].value("content_hash", "")},
          {"test", result["dataset"]["test"].value("content_hash", "")}};
}

std::string shown(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Groups of one algorithm are told apart by the options in which they differ.
void name_groups_of_one_algorithm(const std::vector<LoadedResult>& results,
                                  const std::vector<GroupRow*>& groups) {
  const auto config_of = [&](const GroupRow* group) {
    return telling_options(results[group->runs.front()].json);
  };
  std::set<std::string> keys;
  const json first = config_of(groups.front());
  for (const GroupRow* group : groups) {
    const json config = config_of(group);
    for (const auto& [key, value] : config.items()) {
      if (!first.contains(key) || first[key] != value) keys.insert(key);
    }
  }
  for (GroupRow* group : groups) {
    const json config = config_of(group);
    std::vector<std::string> parts;
    for (const std::string& key : keys) {
      if (config.contains(key)) parts.push_back(fmt::format("{}={}", key, shown(config[key])));
    }
    group->options = fmt::format("{}", fmt::join(parts, ", "));
    group->label =
        parts.empty() ? group->algorithm : fmt::format("{} ({})", group->algorithm, group->options);
  }
}

// Of options that a group lacks nothing is said. The algorithm has a place of its own.
std::vector<std::string> varying_options(const std::vector<json>& configs) {
  std::map<std::string, std::set<std::string>> values;
  for (const json& config : configs) {
    for (const auto& [key, value] : config.items()) values[key].insert(shown(value));
  }
  std::vector<std::string> keys;
  for (const auto& [key, found] : values) {
    if (found.size() > 1 && key != "algorithm") keys.push_back(key);
  }
  return keys;
}

void fill_values(const std::vector<LoadedResult>& results, Comparison& comparison) {
  std::vector<json> configs;
  for (const GroupRow& group : comparison.groups) {
    configs.push_back(telling_options(results[group.runs.front()].json));
  }
  comparison.varying = varying_options(configs);
  for (std::size_t g = 0; g < configs.size(); ++g) {
    std::vector<std::string> values;
    for (const std::string& key : comparison.varying) {
      values.push_back(configs[g].contains(key) ? shown(configs[g][key]) : "");
    }
    for (const std::size_t run : comparison.groups[g].runs) comparison.runs[run].values = values;
  }
}

// What all runs of a group are called; empty: there is no such name.
std::string common_name(const std::vector<LoadedResult>& results, const GroupRow& group,
                        std::string LoadedResult::*member) {
  const std::string& name = results[group.runs.front()].*member;
  const bool same = std::all_of(group.runs.begin(), group.runs.end(),
                                [&](std::size_t run) { return results[run].*member == name; });
  return same ? name : "";
}

// By the setup; where several groups share it by setup and case, and where all do by the case; else
// the label that tells them apart stays behind the name.
void use_given_names(const std::vector<LoadedResult>& results, std::vector<GroupRow>& groups) {
  const auto setup_of = [&](const GroupRow& group) {
    return common_name(results, group, &LoadedResult::setup);
  };
  const bool one_setup = std::all_of(groups.begin(), groups.end(), [&](const GroupRow& group) {
    return setup_of(group) == setup_of(groups.front());
  });
  const auto full_name_of = [&](const GroupRow& group) {
    const std::string name = common_name(results, group, &LoadedResult::case_name);
    return one_setup ? name : fmt::format("{}, {}", setup_of(group), name);
  };
  std::map<std::string, int> setups, full_names;
  for (const GroupRow& group : groups) {
    ++setups[setup_of(group)];
    ++full_names[full_name_of(group)];
  }
  for (GroupRow& group : groups) {
    const std::string setup = setup_of(group), full_name = full_name_of(group);
    if (setup.empty()) continue;
    if (setups[setup] == 1) {
      group.label = setup;
    } else if (full_names[full_name] == 1) {
      group.label = full_name;
    } else {
      group.label = fmt::format("{} ({})", setup, group.label);
    }
  }
}

void name_groups(const std::vector<LoadedResult>& results, Comparison& comparison) {
  std::map<std::string, std::vector<GroupRow*>> by_algorithm;
  for (GroupRow& group : comparison.groups) by_algorithm[group.algorithm].push_back(&group);
  for (const auto& [algorithm, groups] : by_algorithm) {
    name_groups_of_one_algorithm(results, groups);
  }
  use_given_names(results, comparison.groups);
  for (const GroupRow& group : comparison.groups) {
    for (const std::size_t run : group.runs) comparison.runs[run].label = group.label;
  }
}

// A path comes first, then a label; an algorithm names a group if it has one only.
GroupRow& find_reference(const std::string& reference, Comparison& comparison) {
  std::vector<GroupRow*> of_algorithm;
  for (GroupRow& group : comparison.groups) {
    const bool has_file = std::any_of(group.runs.begin(), group.runs.end(), [&](std::size_t run) {
      return comparison.runs[run].path == reference;
    });
    if (has_file) return group;
    if (group.algorithm == reference) {
      of_algorithm.push_back(&group);
    } else if (group.label == reference) {
      return group;
    }
  }
  if (of_algorithm.size() == 1) return *of_algorithm.front();
  if (of_algorithm.empty()) {
    throw usage_error("--reference: found {}, expected one of the compared files or algorithms",
                      quote(reference));
  }
  throw with_hint(usage_error("--reference: found {}, which has {} groups with different options",
                              quote(reference), of_algorithm.size()),
                  "name one of its files");
}

// Against a group that missed a target every other one is infinitely fast.
GroupRow& first_that_reached(Comparison& comparison) {
  const auto reached = [](const GroupRow& group) {
    return std::count_if(group.targets.begin(), group.targets.end(), [](const GroupTarget& target) {
      return std::isfinite(target.time_s.median);
    });
  };
  GroupRow& first = comparison.groups.front();
  GroupRow& best = *std::max_element(
      comparison.groups.begin(), comparison.groups.end(),
      [&](const GroupRow& a, const GroupRow& b) { return reached(a) < reached(b); });
  if (&best == &first) return first;
  comparison.warnings.push_back(fmt::format(
      "the reference is {}: {}, whose file comes first, missed {} (the median of its "
      "runs); --reference names another",
      best.label, first.label,
      comparison.targets.size() == 1 ? comparison.targets.front().text() : "more of the targets"));
  return best;
}

}  // namespace

nlohmann::json telling_options(const json& result) {
  json config = result["config"];
  for (const std::string& key : ignored_options()) config.erase(key);
  // Targets that do not end a run are read off its curve.
  if (!config.value("stop_at_target", false)) config.erase("target");
  for (const json& plugin : result.value("plugins", json::array())) {
    config["plugin"].push_back(fmt::format("{} {}", plugin["name"].get<std::string>(),
                                           plugin["file_hash"].get<std::string>()));
  }
  return config;
}

void choose_reference(const std::string& reference, Comparison& comparison) {
  GroupRow& chosen =
      reference.empty() ? first_that_reached(comparison) : find_reference(reference, comparison);
  chosen.reference = true;
}

void make_groups(const std::vector<LoadedResult>& results, Comparison& comparison) {
  std::vector<json> identities;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const json key = identity(results[i].json);
    const auto place = static_cast<std::size_t>(
        std::find(identities.begin(), identities.end(), key) - identities.begin());
    if (place == identities.size()) {
      identities.push_back(key);
      GroupRow& group = comparison.groups.emplace_back();
      group.algorithm = comparison.runs[i].algorithm;
      group.tuning = comparison.runs[i].tuning;
    }
    comparison.groups[place].runs.push_back(i);
  }
  name_groups(results, comparison);
  fill_values(results, comparison);
}

}  // namespace hetsgd
