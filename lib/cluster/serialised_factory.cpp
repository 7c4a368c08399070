#include "cluster/serialised_factory.hpp"

#include <fmt/format.h>

#include <map>

#include "core/error.hpp"

namespace hetsgd {

namespace {

std::map<std::string, detail::HandlerFactory>& factories() {  // by their keys
  static std::map<std::string, detail::HandlerFactory> known;
  return known;
}

}  // namespace

// Two source files, or a plugin and the program, may each have a handler of one name to themselves.
// Every process registers them in the same order, so a number tells them apart.
std::string detail::register_handler_factory(const char* name, HandlerFactory factory) {
  for (int number = 0;; ++number) {
    const auto [at, added] = factories().emplace(fmt::format("{} {}", name, number), factory);
    if (added || at->second == factory) return at->first;
  }
}

std::unique_ptr<ServiceHandler> make_service_handler(const SerialisedFactory& factory) {
  const auto found = factories().find(factory.key);
  if (found == factories().end()) {
    throw CheckFailure(
        fmt::format("no service is made by {}: do all ranks run the same program?", factory.key));
  }
  return found->second(factory.arguments);
}

}  // namespace hetsgd
