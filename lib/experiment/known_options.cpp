#include "experiment/known_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "algorithm/algorithm.hpp"
#include "core/json_file.hpp"
#include "core/text.hpp"
#include "experiment/configured_run.hpp"
#include "model/registry.hpp"

namespace hetsgd {
namespace {

std::string key_of(const std::string& flag) {
  std::string key = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

// The options that each entry of a registry declares.
template <class Registered>
std::vector<ForeignOption> options_of(const std::vector<Registered>& registered) {
  std::vector<ForeignOption> all;
  for (const Registered& each : registered) {
    const auto owner = each.make();
    OptionSet set;
    owner->declare(set);
    for (const Option& option : set.options()) all.push_back({each.info.name, option});
  }
  return all;
}

}  // namespace

std::vector<ForeignOption> options_of_all_algorithms() { return options_of(algorithms()); }
std::vector<ForeignOption> options_of_all_models() { return options_of(models()); }

std::string owners_of(const std::vector<ForeignOption>& all, const std::string& option) {
  const std::string key = key_of(option);
  std::vector<std::string> owners;
  for (const ForeignOption& foreign : all) {
    if (foreign.option.name == key) owners.push_back(foreign.owner);
  }
  return fmt::format("{}", fmt::join(owners, ", "));
}

nlohmann::json load_config(const std::string& path) {
  nlohmann::json document = read_json(path);
  if (document.is_object() && document.contains("config") && document.contains("schema_version")) {
    if (document["config"].is_object()) return config_of_result(document, path);
    document = document["config"];
  }
  if (!document.is_object()) throw usage_error("{}: expected a JSON object of options", path);
  return document;
}

Error unknown_key(const OptionSet& set, const std::string& key, const std::string& place) {
  std::vector<std::string> known;
  for (const Option& option : set.options()) known.push_back(option.name);
  const auto best = nearest(key, known);
  return with_hint(
      usage_error("{}: unknown option", place),
      best ? fmt::format("did you mean {}?", *best) : "hetsgd train --print-config lists the keys");
}

}  // namespace hetsgd
