#include "experiment/configured_run.hpp"

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

}  // namespace hetsgd
