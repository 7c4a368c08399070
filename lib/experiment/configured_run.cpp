#include "experiment/configured_run.hpp"

namespace hetsgd {
namespace {

// A list that was given for an option of one value: the last one counts, as on the command line.
nlohmann::json fitting(const nlohmann::json& value, const Option& option) {
  return value.is_array() && !option.is_list() ? value.back() : value;
}

}  // namespace

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
