#include "algorithm/algorithm.hpp"

#include "core/error.hpp"
#include "core/registry.hpp"

namespace hetsgd {

namespace {

Registry<RegisteredAlgorithm>& algorithm_registry() {
  static Registry<RegisteredAlgorithm> registry;
  return registry;
}

}  // namespace

bool register_algorithm_raw(RegisteredAlgorithm algorithm) {
  return algorithm_registry().add(std::move(algorithm));
}

const std::vector<RegisteredAlgorithm>& algorithms() { return algorithm_registry().all(); }

void check_at_most(std::string_view option, std::uint64_t value, std::string_view other,
                   std::uint64_t most) {
  if (value <= most) return;
  throw usage_error("{}: found {}, expected at most {} {}", option, value, other, most);
}

void declare_options(Algorithm& algorithm, const AlgorithmInfo& info, OptionSet& set) {
  algorithm.declare(set);
  for (const auto& [name, text] : info.defaults) {
    // Only the options of the chosen model exist, so a default may have no option.
    if (set.find(name) != nullptr) set.set_default(name, text);
  }
}

const RegisteredAlgorithm& find_algorithm(const std::string& name, const std::string& where) {
  return algorithm_registry().find(name, where, "hetsgd algorithms");
}

}  // namespace hetsgd
