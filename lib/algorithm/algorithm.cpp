#include "algorithm/algorithm.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

std::vector<RegisteredAlgorithm>& registry() {
  static std::vector<RegisteredAlgorithm> list;
  return list;
}

}  // namespace

bool register_algorithm_raw(RegisteredAlgorithm algorithm) {
  auto& list = registry();
  const auto place = std::ranges::lower_bound(
      list, algorithm.info.name, {},
      [](const RegisteredAlgorithm& a) -> const auto& { return a.info.name; });
  list.insert(place, std::move(algorithm));
  return true;
}

const std::vector<RegisteredAlgorithm>& algorithms() { return registry(); }

const RegisteredAlgorithm& find_algorithm(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& algorithm : registry()) {
    if (algorithm.info.name == name) return algorithm;
    names.push_back(algorithm.info.name);
  }
  const auto suggestion = nearest(name, names);
  throw with_hint(
      usage_error("--algorithm: found \"{}\", expected one of {}", name, fmt::join(names, ", ")),
      suggestion ? fmt::format("did you mean {}?", *suggestion)
                 : "hetsgd algorithms describes them");
}

}  // namespace hetsgd
