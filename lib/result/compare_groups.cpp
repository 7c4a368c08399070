// Puts runs into groups, and names the groups.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "result/compare_parts.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// Options that do not separate groups: the seed, paths (the content hash counts instead), and
// options that cannot change a result. scripts/hetsgd_results.py reads the same file.
const std::set<std::string>& ignored_options() {
  static const std::set<std::string> keys =
      json::parse(ungrouped_options()).get<std::set<std::string>>();
  return keys;
}

// The content of a run's data.
json data_of(const json& result) {
  static const std::vector<json::json_pointer> kData = {
      json::json_pointer("/dataset/train/content_hash"),
      json::json_pointer("/dataset/test/content_hash")};
  json whole = json::array();
  for (const json::json_pointer& place : kData) whole.push_back(result.value(place, ""));
  return whole;
}

// The key of a run's group: its data and options without the seed.
json identity(const json& result) {
  return json::array({telling_options(result), data_of(result)});
}

std::string option_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

using Runs = std::vector<std::size_t>;  // indices of results

// Groups of runs that differ only in their seed, in the order of their first runs.
std::vector<Runs> groups_of(const std::vector<LoadedResult>& results) {
  std::vector<json> identities;
  for (const LoadedResult& result : results) identities.push_back(identity(result.json));
  return places_by_key(identities);
}

// The common name of a group's runs; empty if they have different names, or none.
std::string name_of_runs(const std::vector<LoadedResult>& results, const Runs& runs,
                         std::string LoadedResult::*member) {
  const std::string& name = results[runs.front()].*member;
  const bool same =
      std::ranges::all_of(runs, [&](std::size_t run) { return results[run].*member == name; });
  return same ? name : "";
}

bool have_different(const std::vector<LoadedResult>& results, std::string LoadedResult::*member) {
  return std::ranges::any_of(
      results, [&](const LoadedResult& each) { return each.*member != results.front().*member; });
}

// The name of a group without the options that distinguish groups of this name. It is its setup, if
// the comparison has several, and its case. If it has neither, it is its algorithm.
std::string plain_name(const std::vector<LoadedResult>& results, const Runs& runs, bool cases) {
  std::vector<std::string> parts;
  if (have_different(results, &LoadedResult::setup)) {
    parts.push_back(name_of_runs(results, runs, &LoadedResult::setup));
  }
  if (cases) parts.push_back(name_of_runs(results, runs, &LoadedResult::case_name));
  std::erase(parts, "");
  if (parts.empty()) parts.push_back(results[runs.front()].json["config"]["algorithm"]);
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Adds the options in which groups of one name differ.
void add_differing_options(const std::vector<LoadedResult>& results, GroupNames& names) {
  std::map<std::string, json> first;  // by name
  for (const Runs& runs : groups_of(results)) {
    const std::string name = plain_name(results, runs, names.cases);
    const json config = telling_options(results[runs.front()].json);
    const json& other = first.try_emplace(name, config).first->second;
    for (const auto& [key, value] : config.items()) {
      if (!other.contains(key) || other[key] != value) names.options[name].insert(key);
    }
    for (const auto& [key, value] : other.items()) {
      if (!config.contains(key)) names.options[name].insert(key);
    }
  }
}

// The options in which the groups that have them differ. The algorithm is left out, because it has
// a column of its own.
std::vector<std::string> varying_options(const std::vector<json>& configs) {
  std::map<std::string, std::set<std::string>> values;
  for (const json& config : configs) {
    for (const auto& [key, value] : config.items()) values[key].insert(option_text(value));
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
      values.push_back(configs[g].contains(key) ? option_text(configs[g][key]) : "");
    }
    for (const std::size_t run : comparison.groups[g].runs) comparison.runs[run].values = values;
  }
}

void name_group(const std::vector<LoadedResult>& results, const GroupNames& names,
                GroupRow& group) {
  group.name = plain_name(results, group.runs, names.cases);
  const json config = telling_options(results[group.runs.front()].json);
  std::vector<std::string> parts;
  if (const auto keys = names.options.find(group.name); keys != names.options.end()) {
    for (const std::string& key : keys->second) {
      if (config.contains(key))
        parts.push_back(fmt::format("{}={}", key, option_text(config[key])));
    }
  }
  group.options = fmt::format("{}", fmt::join(parts, ", "));
  group.label = parts.empty() ? group.name : fmt::format("{} ({})", group.name, group.options);
}

std::string labels_of(const std::vector<GroupRow*>& groups) {
  std::vector<std::string> labels;
  for (const GroupRow* group : groups) labels.push_back(quote(group->label));
  return fmt::format("{}", fmt::join(labels, ", "));
}

// The first group among those that reached the most targets. A group that missed a target is no
// useful reference, because every other one is infinitely fast beside it.
GroupRow& first_that_reached(Comparison& comparison) {
  const auto reached = [](const GroupRow& group) {
    return std::ranges::count_if(group.targets, [](const GroupTarget& target) {
      return std::isfinite(target.time_s.median);
    });
  };
  GroupRow& first = comparison.groups.front();
  GroupRow& best = *std::ranges::max_element(
      comparison.groups,
      [&](const GroupRow& a, const GroupRow& b) { return reached(a) < reached(b); });
  if (&best == &first) return first;
  comparison.warnings.push_back(fmt::format(
      "the reference is {}, because the median run of {}, which comes first, missed {}; "
      "--reference names another",
      best.label, first.label,
      comparison.targets.size() == 1 ? comparison.targets.front().text() : "more of the targets"));
  return best;
}

}  // namespace

std::vector<std::vector<std::size_t>> places_by_key(const std::vector<json>& keys) {
  std::vector<const json*> different;
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto found = std::ranges::find_if(different, [&](auto* key) { return *key == keys[i]; });
    const auto place = static_cast<std::size_t>(found - different.begin());
    if (place == different.size()) {
      different.push_back(&keys[i]);
      places.emplace_back();
    }
    places[place].push_back(i);
  }
  return places;
}

const json& config_value(const json& result, const std::string& key) {
  static const json kNothing;
  const json& config = result["config"];
  const auto found = config.find(key);
  return found == config.end() ? kNothing : *found;
}

json telling_options(const json& result) {
  json config = result["config"];
  for (const std::string& key : ignored_options()) config.erase(key);
  // Targets that do not end a run do not change it, and are read off its curve.
  if (config_value(result, "stop_at_target") != true) config.erase("target");
  for (auto option = config.begin(); option != config.end();) {
    const bool has_value = !option->is_null() && *option != "none";
    option = has_value ? std::next(option) : config.erase(option);
  }
  for (const json& plugin : result.value("plugins", json::array())) {
    config["plugin"].push_back(fmt::format("{} {}", plugin["name"].get<std::string>(),
                                           plugin["file_hash"].get<std::string>()));
  }
  return config;
}

std::string common_name(const std::vector<LoadedResult>& results,
                        std::string LoadedResult::*member) {
  return have_different(results, member) ? "" : results.front().*member;
}

GroupNames names_of(const std::vector<const std::vector<LoadedResult>*>& comparisons) {
  GroupNames names;
  for (const std::vector<LoadedResult>* results : comparisons) {
    names.cases |= have_different(*results, &LoadedResult::case_name) ||
                   results->front().case_name != comparisons.front()->front().case_name;
  }
  for (const std::vector<LoadedResult>* results : comparisons) {
    add_differing_options(*results, names);
  }
  return names;
}

std::vector<GroupRow*> groups_named(const std::string& reference, Comparison& comparison) {
  const auto has_file = [&](const GroupRow& group) {
    return std::ranges::any_of(
        group.runs, [&](std::size_t run) { return comparison.runs[run].path == reference; });
  };
  const std::vector<std::function<bool(const GroupRow&)>> ways = {
      has_file, [&](const GroupRow& group) { return group.label == reference; },
      [&](const GroupRow& group) { return group.name == reference; },
      [&](const GroupRow& group) { return group.case_name == reference; },
      [&](const GroupRow& group) { return group.algorithm == reference; }};
  for (const auto& is_meant : ways) {
    std::vector<GroupRow*> found;
    for (GroupRow& group : comparison.groups) {
      if (is_meant(group)) found.push_back(&group);
    }
    if (!found.empty()) return found;
  }
  return {};
}

void refuse_unknown(const std::string& text, const std::vector<GroupRow*>& groups) {
  refuse("--reference", quote(text),
         "one of the compared files, a group's name, or an algorithm or a case with one group",
         "the groups are " + labels_of(groups));
}

void refuse_ambiguous(const std::string& text, const std::vector<GroupRow*>& groups) {
  refuse("--reference",
         fmt::format("{}, which {} groups have in common", quote(text), groups.size()),
         "one of " + labels_of(groups));
}

void choose_reference(const CompareOptions& options, Comparison& comparison) {
  const std::string& reference = options.reference;
  if (reference.empty()) {
    GroupRow& chosen =
        options.first_is_reference ? comparison.groups.front() : first_that_reached(comparison);
    chosen.reference = true;
    return;
  }
  const std::vector<GroupRow*> named = groups_named(reference, comparison);
  if (named.size() > 1) refuse_ambiguous(reference, named);
  if (named.empty()) {
    std::vector<GroupRow*> all;
    for (GroupRow& group : comparison.groups) all.push_back(&group);
    refuse_unknown(reference, all);
  }
  named.front()->reference = true;
}

void pair_groups(const std::vector<LoadedResult>& results, Comparison& comparison) {
  const auto seeds_of = [&](const GroupRow& group) {
    std::multiset<std::uint64_t> seeds;
    for (const std::size_t run : group.runs) seeds.insert(comparison.runs[run].seed);
    return seeds;
  };
  const GroupRow& reference = comparison.reference();
  const std::multiset<std::uint64_t> base = seeds_of(reference);
  const bool once = std::ranges::adjacent_find(base) == base.end();
  const json data = data_of(results[reference.runs.front()].json);
  for (GroupRow& group : comparison.groups) {
    group.paired =
        once && seeds_of(group) == base && data_of(results[group.runs.front()].json) == data;
  }
}

void make_groups(const std::vector<LoadedResult>& results, const GroupNames& names,
                 Comparison& comparison) {
  for (Runs& runs : groups_of(results)) {
    GroupRow& group = comparison.groups.emplace_back();
    group.algorithm = comparison.runs[runs.front()].algorithm;
    group.tuning = comparison.runs[runs.front()].tuning;
    group.case_name = name_of_runs(results, runs, &LoadedResult::case_name);
    group.runs = std::move(runs);
    name_group(results, names, group);
    for (const std::size_t run : group.runs) comparison.runs[run].label = group.label;
  }
  fill_values(results, comparison);
}

}  // namespace hetsgd
