#include "data/generator.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/key_values.hpp"
#include "core/text.hpp"

namespace hetsgd {

GeneratorParts generator_parts(std::string_view spec) {
  HETSGD_CHECK(is_generator_spec(spec));
  const std::string_view name = spec.substr(kGeneratorPrefix.size());
  const std::string_view preset = name.substr(0, name.find('?'));
  return {name, preset, name.substr(std::min(name.size(), preset.size() + 1))};
}

void read_settings(std::string_view spec, OptionSet& set, std::string_view example) {
  const std::string_view settings = generator_parts(spec).settings;
  if (!settings.empty()) KeyValues(settings, '&', std::string(spec), example).set(set);
}

}  // namespace hetsgd
