#include "data/generator.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/key_values.hpp"
#include "core/text.hpp"
#include "data/clicks.hpp"
#include "data/generate.hpp"
#include "data/generate_ctr.hpp"
#include "data/generate_images.hpp"
#include "data/generate_language.hpp"
#include "data/generate_video.hpp"

namespace hetsgd {

namespace {

struct Generator {
  std::vector<std::string> presets;
  ParsedData (*load)(const std::string& spec, const LoadOptions& options);
};

const std::vector<Generator>& generators() {
  static const std::vector<Generator> all = {
      {generator_preset_names(),
       [](const std::string& spec, const LoadOptions& options) {
         ParsedData parsed;
         parsed.data = *generate_part(parse_generator_spec(spec), options.part, options.threads);
         parsed.report.format = DataFormat::generated;
         return parsed;
       }},
      {click_preset_names(), generate_clicks},
      {{std::string(kImagePreset)},
       [](const std::string& spec, const LoadOptions& options) {
         return generate_images(parse_image_spec(spec), options.part, options.threads);
       }},
      {{std::string(kVideoPreset)},
       [](const std::string& spec, const LoadOptions& options) {
         return generate_video(parse_video_spec(spec), options.part, options.threads);
       }},
      {{std::string(kLanguagePreset)}, [](const std::string& spec, const LoadOptions& options) {
         return generate_language(parse_language_spec(spec), options.part, options.threads);
       }}};
  return all;
}

}  // namespace

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

ParsedData load_generated(const std::string& spec, const LoadOptions& options) {
  const std::string preset(generator_parts(spec).preset);
  std::vector<std::string> known;
  for (const Generator& generator : generators()) {
    if (std::ranges::find(generator.presets, preset) != generator.presets.end()) {
      return generator.load(spec, options);
    }
    known.insert(known.end(), generator.presets.begin(), generator.presets.end());
  }
  refuse(spec, quote(preset), alternatives(known), did_you_mean(preset, known));
}

}  // namespace hetsgd
