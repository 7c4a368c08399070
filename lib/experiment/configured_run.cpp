#include "experiment/configured_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/logging.hpp"
#include "core/options.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

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

}  // namespace hetsgd
