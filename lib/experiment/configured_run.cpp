#include "experiment/configured_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "algorithm/algorithm.hpp"
#include "core/json_fields.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "model/registry.hpp"
#include "training/plan.hpp"

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

nlohmann::json fitting(const nlohmann::json& value, const Option& option) {
  const bool last_counts = value.is_array() && !value.empty() && !option.is_list();
  return last_counts ? value.back() : value;
}

ConfiguredRun::ConfiguredRun(const std::string& algorithm, const std::vector<Setting>& settings)
    : info_(find_algorithm(algorithm).info), algorithm_(find_algorithm(algorithm).make()) {
  for (const Setting& setting : settings) {
    if (setting.name == "model") options_.choose_model(setting.value);
  }
  options_.declare(set_);
  declare_options(*algorithm_, info_, set_);
  options_.algorithm = algorithm;
  for (const Setting& setting : settings) set(setting);
  if (knows_workers()) settle_learning_rate(options_, info_, set_);
}

bool ConfiguredRun::knows_workers() const {
  return options_.workers || !cluster_kind(options_.cluster).join;
}

void ConfiguredRun::set(const Setting& setting) {
  const Option* const option = set_.find(setting.name);
  if (option == nullptr) return;
  set_.set_json(setting.name, fitting(setting.value, *option), setting.source, setting.place);
}

nlohmann::json config_of_result(const nlohmann::json& result, const std::string& path) {
  TrainOptions options;
  OptionSet set;
  options.declare(set);
  nlohmann::json config = nlohmann::json::object();
  std::vector<std::string> left_out;
  for (const auto& [key, value] : result["config"].items()) {
    const Option* const option = set.find(key);
    if (option == nullptr || option->in_config) {
      config[key] = value;
    } else {
      left_out.push_back(key);
    }
  }
  if (!left_out.empty()) {
    warn("{}: left out, as a result does not decide what a run writes and reports: {}", path,
         fmt::join(left_out, ", "));
  }
  return config;
}

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
  if (!document.is_object()) refuse(path, "no object", "a JSON object of options");
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
