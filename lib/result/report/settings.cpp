// In what the groups of a workload differ, and where the runs took place.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "result/compare_parts.hpp"
#include "result/report/parts.hpp"

namespace hetsgd::report {
namespace {

using nlohmann::json;

// Null: the program did not know, or does not say.
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

}  // namespace

nlohmann::json settings(const Workload& workload, const std::vector<const GroupRow*>& groups) {
  std::vector<json> configs;
  std::map<std::string, std::set<json>> found;  // by option
  for (const GroupRow* group : groups) {
    configs.push_back(telling_options(workload.results[group->runs.front()].json));
    configs.back().erase("algorithm");  // it is in every label
    for (const auto& [name, value] : configs.back().items()) found[name].insert(value);
  }
  json options = json::array(), rows = json::array();
  for (const auto& [name, values] : found) {
    if (values.size() > 1) options.push_back(name);
  }
  const auto in_all = [&](const std::string& name) {
    return std::all_of(configs.begin(), configs.end(),
                       [&](const json& config) { return config.contains(name); });
  };
  for (const json& config : configs) {
    json row = {{"values", json::array()}, {"own", json::array()}};
    for (const json& name : options) {
      const std::string key = name;
      row["values"].push_back(config.contains(key) ? json(shown(config[key])) : json(nullptr));
    }
    for (const auto& [name, value] : config.items()) {
      if (found[name].size() > 1 || in_all(name)) continue;
      row["own"].push_back(fmt::format("{}={}", name, shown(value)));
    }
    rows.push_back(std::move(row));
  }
  return {{"options", std::move(options)}, {"groups", std::move(rows)}};
}

nlohmann::json environments(const std::vector<Workload>& workloads) {
  json all = json::array();
  for (const Workload& workload : workloads) {
    for (const LoadedResult& each : workload.results) {
      json rows = environment_of(each.json);
      const auto known = std::find_if(all.begin(), all.end(), [&](const json& environment) {
        return environment["rows"] == rows;
      });
      if (known != all.end()) {
        (*known)["runs"] = (*known)["runs"].get<std::size_t>() + 1;
      } else {
        all.push_back({{"runs", 1}, {"rows", std::move(rows)}});
      }
    }
  }
  return all;
}

}  // namespace hetsgd::report
