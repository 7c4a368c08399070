#include "model/registry.hpp"

#include "core/registry.hpp"

namespace hetsgd {

namespace {

Registry<RegisteredModel>& model_registry() {
  static Registry<RegisteredModel> registry;
  return registry;
}

}  // namespace

bool register_model_raw(RegisteredModel model) { return model_registry().add(std::move(model)); }

const std::vector<RegisteredModel>& models() { return model_registry().all(); }

const RegisteredModel& find_model(const std::string& name, const std::string& where) {
  return model_registry().find(name, where, "hetsgd models");
}

}  // namespace hetsgd
