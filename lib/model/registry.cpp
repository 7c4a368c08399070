#include "model/registry.hpp"

#include <algorithm>

#include "core/registry.hpp"
#include "model/network/graph_model.hpp"

namespace hetsgd {

namespace {

Registry<RegisteredModel>& model_registry() {
  static Registry<RegisteredModel> registry;
  return registry;
}

}  // namespace

bool register_model_raw(RegisteredModel model) { return model_registry().add(std::move(model)); }

const std::vector<RegisteredModel>& models() { return model_registry().all(); }

std::vector<std::string> models_with_tables() {
  std::vector<std::string> names;
  for (const RegisteredModel& each : models()) {
    if (each.info.reads_fields) names.push_back(each.info.name);
  }
  return names;
}

const RegisteredModel& find_model(const std::string& name, const std::string& where) {
  const auto has_name = [&](const RegisteredModel& each) { return each.info.name == name; };
  if (std::ranges::none_of(models(), has_name) && is_network_name(name)) return network_model(name);
  return model_registry().find(name, where, "hetsgd models");
}

}  // namespace hetsgd
