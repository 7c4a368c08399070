#include "result/workloads.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "result/compare_parts.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// The folder of a file, outermost part first.
using Folder = std::vector<std::string>;
using Folders = std::vector<Folder>;

constexpr std::size_t kMostFolders = 3;  // at most so many in a name
constexpr std::size_t kLongLabel = 40;

std::vector<EqualPart> workload_parts() {
  std::vector<EqualPart> parts;
  for (const EqualPart& part : equal_parts()) {
    if (part.workload) parts.push_back(part);
  }
  return parts;
}

json workload_key(const json& result, const std::vector<EqualPart>& parts) {
  json key = json::array();
  for (const EqualPart& part : parts) key.push_back(value_of(part, result));
  return key;
}

// The value of a part for people. A data set is given by name, because its hash says little.
std::string fact_text(const EqualPart& part, const json& result) {
  const json value = value_of(part, result);
  const json::json_pointer parent = part.place.parent_pointer();
  if (part.place.back() == "content_hash" && result.contains(parent) &&
      result[parent].is_object()) {
    return fmt::format("{}, {} rows ({})", shown(result[parent]["name"]),
                       shown(result[parent]["rows"]), shown(value));
  }
  return shown(value);
}

// "the network" -> "network".
std::string without_article(const std::string& what) {
  return what.starts_with("the ") ? what.substr(4) : what;
}

// The training data's name, and each part in which it differs from another workload.
std::string text_of_parts(const json& result, const std::vector<EqualPart>& parts,
                          const std::vector<bool>& differs) {
  std::vector<std::string> words;
  const json& train = result["dataset"]["train"];
  words.push_back(train.is_object() ? shown(train["name"]) : "no data");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool follows = parts[i].what == "the test data" && differs[0];
    if (!differs[i] || follows) continue;
    words.push_back(
        fmt::format("{}: {}", without_article(parts[i].what), shown(value_of(parts[i], result))));
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

bool lies_in(const Folder& folder, const Folder& outer) {
  return folder.size() >= outer.size() && std::equal(outer.begin(), outer.end(), folder.begin());
}

// The innermost folder that holds all files.
Folder common_folder(const std::vector<Folder>& folders) {
  Folder common = folders.front();
  while (!std::ranges::all_of(folders,
                              [&](const Folder& folder) { return lies_in(folder, common); })) {
    common.pop_back();
  }
  return common;
}

// Whether only the set `own` has files in the folder.
bool belongs_to(const Folder& folder, std::size_t own, const std::vector<Folders>& sets) {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const bool also =
        std::ranges::any_of(sets[i], [&](const Folder& each) { return lies_in(each, folder); });
    if (i != own && also) return false;
  }
  return true;
}

std::string below(const Folder& outer, const Folder& folder) {
  return fmt::format("{}", fmt::join(folder.begin() + static_cast<std::ptrdiff_t>(outer.size()),
                                     folder.end(), "/"));
}

Folder folder_of(const std::string& path) {
  Folder folder;
  for (const std::filesystem::path& part : std::filesystem::path(path).parent_path()) {
    folder.push_back(part.native());
  }
  return folder;
}

// The folders in which only the set `own` has files, below the common folder of all sets, as a
// text. It is the innermost one, or a few next to each other; empty if there are none.
std::string own_folders(const std::vector<Folders>& sets, std::size_t own) {
  Folders all;
  for (const Folders& folders : sets) all.insert(all.end(), folders.begin(), folders.end());
  const Folder outer = common_folder(all), inner = common_folder(sets[own]);
  if (belongs_to(inner, own, sets)) return below(outer, inner);
  std::set<std::string> names;
  for (const Folder& folder : sets[own]) {
    if (folder.size() <= outer.size()) return "";
    const Folder first(folder.begin(),
                       folder.begin() + static_cast<std::ptrdiff_t>(outer.size() + 1));
    if (!belongs_to(first, own, sets)) return "";
    names.insert(first.back());
  }
  return names.size() <= kMostFolders ? fmt::format("{}", fmt::join(names, ", ")) : "";
}

// Whether the names of the training data distinguish as much as their hashes, which then need not
// be shown.
bool names_tell_data_apart(const std::vector<Workload>& workloads) {
  std::set<json> names, data;
  for (const Workload& workload : workloads) {
    const json& train = workload.results.front().json["dataset"]["train"];
    if (!train.is_object()) continue;
    names.insert(train["name"]);
    data.insert(json::array({train["name"], train["content_hash"]}));
  }
  return names.size() == data.size();
}

// The name in a sweep that all runs of this workload have and no other runs; empty if there is
// none.
std::string own_name(const std::vector<Workload>& workloads, std::size_t own,
                     std::string LoadedResult::*member) {
  if (workloads.size() < 2) return "";
  std::vector<std::string> names;
  for (const Workload& workload : workloads) {
    names.push_back(common_name(workload.results, member));
  }
  return std::count(names.begin(), names.end(), names[own]) == 1 ? names[own] : "";
}

std::vector<bool> parts_that_differ(const std::vector<Workload>& workloads,
                                    const std::vector<json>& keys) {
  std::vector<bool> differs(keys.front().size(), false);
  for (const json& key : keys) {
    for (std::size_t i = 0; i < key.size(); ++i) {
      if (key[i] != keys.front()[i]) differs[i] = true;
    }
  }
  if (differs[0] && names_tell_data_apart(workloads)) differs[0] = differs[1] = false;
  return differs;
}

void describe(std::vector<Workload>& workloads, const std::vector<json>& keys,
              const std::vector<EqualPart>& parts) {
  const std::vector<bool> differs = parts_that_differ(workloads, keys);
  std::vector<Folders> folders;
  for (const Workload& workload : workloads) {
    Folders& own = folders.emplace_back();
    for (const LoadedResult& each : workload.results) own.push_back(folder_of(each.path));
  }
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    Workload& workload = workloads[i];
    const json& first = workload.results.front().json;
    workload.about = text_of_parts(first, parts, differs);
    workload.name = own_name(workloads, i, &LoadedResult::setup);
    if (workload.name.empty()) workload.name = own_name(workloads, i, &LoadedResult::case_name);
    if (workload.name.empty()) workload.name = own_folders(folders, i);
    if (workload.name.empty()) workload.name = workload.about;
    for (const EqualPart& part : parts) {
      if (value_of(part, first).is_null()) continue;
      workload.facts.push_back({without_article(part.what), fact_text(part, first)});
    }
  }
}

bool measures(const json& result, const std::string& metric) {
  const json& curve = result["curve"];
  return curve.empty() || curve.front().contains(metric);
}

// Whether all runs measure the metric. A run without a curve may have had any metric, so it is not
// counted against it.
bool measures(const Workload& workload, const std::string& metric) {
  return std::ranges::all_of(workload.results,
                             [&](const LoadedResult& each) { return measures(each.json, metric); });
}

// The targets whose metric the workload measures. With a single workload all are kept, since
// compare() can name the result that lacks one.
std::vector<Target> targets_of(const Workload& workload, const std::vector<Target>& targets,
                               std::size_t workloads) {
  if (workloads == 1) return targets;
  std::vector<Target> own;
  std::copy_if(targets.begin(), targets.end(), std::back_inserter(own),
               [&](const Target& target) { return measures(workload, target.metric); });
  return own;
}

void check_targets(const std::vector<Workload>& workloads, const std::vector<Target>& targets) {
  if (workloads.size() == 1) return;
  for (const Target& target : targets) {
    const bool measured = std::ranges::any_of(
        workloads, [&](const Workload& each) { return measures(each, target.metric); });
    if (!measured) {
      refuse("--target", target.text(),
             "a metric that all runs of a workload measure, for example 'accuracy>=0.8'");
    }
  }
}

// Names groups by their own folders where labels are long, because a folder says more than a label
// of many options.
bool use_folders_as_names(Workload& workload) {
  const std::vector<GroupRow>& groups = workload.comparison.groups;
  std::vector<Folders> folders;
  for (const GroupRow& group : groups) {
    Folders& own = folders.emplace_back();
    for (const std::size_t run : group.runs) own.push_back(folder_of(workload.results[run].path));
  }
  bool any = false;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].label.size() <= kLongLabel) continue;
    const std::string name = own_folders(folders, i);
    for (const std::size_t run : groups[i].runs) {
      LoadedResult& result = workload.results[run];
      if (name.empty() || !result.case_name.empty()) continue;
      result.case_name = name;
      any = true;
    }
  }
  return any;
}

void compare_all(std::vector<Workload>& workloads, const CompareOptions& options) {
  std::vector<const std::vector<LoadedResult>*> together;
  for (const Workload& workload : workloads) together.push_back(&workload.results);
  const GroupNames names = names_of(together);
  for (Workload& workload : workloads) {
    CompareOptions own = options;
    own.targets = targets_of(workload, options.targets, workloads.size());
    own.reference.clear();
    own.names = names;
    workload.comparison = compare(workload.results, own);
    if (options.reference.empty()) continue;
    if (groups_named(options.reference, workload.comparison).size() == 1) {
      own.reference = options.reference;
      workload.comparison = compare(workload.results, own);
    } else if (workloads.size() > 1) {
      workload.comparison.warnings.push_back(
          fmt::format("--reference {} names no group or several groups: the reference is {}",
                      options.reference, workload.comparison.reference().label));
    }
  }
}

void check_reference(const std::string& reference, std::vector<Workload>& workloads) {
  if (reference.empty()) return;
  std::vector<GroupRow*> several, all;
  for (Workload& workload : workloads) {
    const std::vector<GroupRow*> named = groups_named(reference, workload.comparison);
    if (named.size() == 1) return;
    if (several.empty()) several = named;
  }
  if (!several.empty()) refuse_ambiguous(reference, several);
  for (GroupRow& group : workloads.front().comparison.groups) all.push_back(&group);
  refuse_unknown(reference, all);
}

}  // namespace

std::string shown(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "-";
  if (value.is_object()) {
    for (const char* key : {"name", "preset"}) {
      if (value.contains(key) && value[key].is_string()) return value[key].get<std::string>();
    }
  }
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const json& each : value) parts.push_back(shown(each));
    return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
  }
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<Workload> split_workloads(std::vector<LoadedResult> results) {
  const std::vector<EqualPart> parts = workload_parts();
  std::vector<json> all_keys, keys;
  for (const LoadedResult& each : results) all_keys.push_back(workload_key(each.json, parts));
  std::vector<Workload> workloads;
  for (const std::vector<std::size_t>& places : places_by_key(all_keys)) {
    Workload& workload = workloads.emplace_back();
    for (const std::size_t i : places) workload.results.push_back(std::move(results[i]));
    keys.push_back(all_keys[places.front()]);
  }
  describe(workloads, keys, parts);
  return workloads;
}

void compare_workloads(std::vector<Workload>& workloads, const CompareOptions& options) {
  check_targets(workloads, options.targets);
  compare_all(workloads, options);
  bool renamed = false;
  for (Workload& workload : workloads) renamed |= use_folders_as_names(workload);
  if (renamed) compare_all(workloads, options);
  check_reference(options.reference, workloads);
}

}  // namespace hetsgd
