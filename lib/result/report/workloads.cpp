// Which runs share a workload, and what the workloads are called.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>

#include "result/compare_parts.hpp"
#include "result/report/parts.hpp"

namespace hetsgd::report {
namespace {

using nlohmann::json;

constexpr std::size_t kMostFolders = 3;  // in a name

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

// Of data sets the name says more than the hash.
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
  while (!std::all_of(folders.begin(), folders.end(),
                      [&](const Folder& folder) { return lies_in(folder, common); })) {
    common.pop_back();
  }
  return common;
}

// Whether only the `own` of the sets has files in it.
bool belongs_to(const Folder& folder, std::size_t own, const std::vector<Folders>& sets) {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const bool also = std::any_of(sets[i].begin(), sets[i].end(),
                                  [&](const Folder& each) { return lies_in(each, folder); });
    if (i != own && also) return false;
  }
  return true;
}

std::string below(const Folder& outer, const Folder& folder) {
  return fmt::format("{}", fmt::join(folder.begin() + static_cast<std::ptrdiff_t>(outer.size()),
                                     folder.end(), "/"));
}

// Where the names of the training data tell what their hashes tell, nobody wants to read the hashes.
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

// The case of a sweep to which all runs belong; empty: there is none.
std::string common_case(const Workload& workload) {
  const std::string& name = workload.results.front().case_name;
  const bool same = std::all_of(workload.results.begin(), workload.results.end(),
                                [&](const LoadedResult& each) { return each.case_name == name; });
  return same ? name : "";
}

// The same, if no other workload has it; empty for the only workload.
std::string own_case(const std::vector<Workload>& workloads, std::size_t own) {
  const std::string name = common_case(workloads[own]);
  const auto users = std::count_if(workloads.begin(), workloads.end(),
                                   [&](const Workload& each) { return common_case(each) == name; });
  return workloads.size() > 1 && users == 1 ? name : "";
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
    workload.name = own_case(workloads, i);
    if (workload.name.empty()) workload.name = own_folders(folders, i);
    if (workload.name.empty()) workload.name = workload.about;
    for (const EqualPart& part : parts) {
      if (value_of(part, first).is_null()) continue;
      workload.facts.push_back({without_article(part.what), fact_text(part, first)});
    }
  }
}

}  // namespace

Folder folder_of(const std::string& path) {
  Folder folder;
  for (const std::filesystem::path& part : std::filesystem::path(path).parent_path()) {
    folder.push_back(part.native());
  }
  return folder;
}

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
  std::vector<Workload> workloads;
  std::vector<json> keys;
  for (LoadedResult& result : results) {
    json key = workload_key(result.json, parts);
    const auto place =
        static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
    if (place == keys.size()) {
      keys.push_back(std::move(key));
      workloads.emplace_back();
    }
    workloads[place].results.push_back(std::move(result));
  }
  describe(workloads, keys, parts);
  return workloads;
}

}  // namespace hetsgd::report
