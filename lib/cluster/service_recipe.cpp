#include "cluster/service_recipe.hpp"

#include <map>

namespace hetsgd {

namespace {

std::map<std::string, detail::ServiceMaker>& makers() {
  static std::map<std::string, detail::ServiceMaker> known;
  return known;
}

}  // namespace

void detail::put(BytesOut& out, const void* data, std::size_t bytes) {
  const std::size_t before = out.size();
  out.resize(before + bytes);
  if (bytes > 0) std::memcpy(out.data() + before, data, bytes);
}

bool detail::register_service_maker(const char* name, ServiceMaker maker) {
  const auto [at, added] = makers().emplace(name, maker);
  // Two source files may each have a handler of one name to themselves: then neither can be meant.
  if (!added && at->second != maker) at->second = nullptr;
  return true;
}

std::unique_ptr<ServiceHandler> make_service_handler(const ServiceRecipe& recipe) {
  const auto found = makers().find(recipe.maker);
  if (found == makers().end() || !found->second) {
    throw CheckFailure(fmt::format(
        "no service, or more than one, is made by {}: do all ranks run the same program?",
        recipe.maker));
  }
  return found->second(recipe.arguments);
}

}  // namespace hetsgd
