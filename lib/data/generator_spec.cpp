#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "data/generate.hpp"

namespace hetsgd {

namespace {

GeneratorOptions make(const char* name, std::uint64_t train, std::uint64_t test, Index features,
                      Index labels, double nonzeros, double labels_per_sample) {
  GeneratorOptions options;
  options.name = name;
  options.rows_train = train;
  options.rows_test = test;
  options.features = features;
  options.labels = labels;
  options.nonzeros_per_sample = nonzeros;
  options.labels_per_sample = labels_per_sample;
  return options;
}

const std::array<GeneratorOptions, 3>& presets() {
  static const std::array<GeneratorOptions, 3> all = [] {
    std::array<GeneratorOptions, 3> list = {
        make("amazon670k", 490449, 153025, 135909, 670091, 76, 5),
        make("delicious200k", 196606, 100095, 782585, 205443, 302, 75),
        make("tiny", 2000, 500, 500, 50, 20, 2),
    };
    // 75 of some 200 labels of a topic: under a steep law its first label would be in every row.
    list[1].label_zipf = 0.5;
    list[1].noise = 0.3;
    return list;
  }();
  return all;
}

std::uint64_t scaled(std::uint64_t count, double scale, std::uint64_t least) {
  const double product = std::round(static_cast<double>(count) * scale);
  return std::max(least, static_cast<std::uint64_t>(product));
}

template <class T>
T parse_value(std::string_view key, std::string_view text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() ||
      !(value >= low && value <= high)) {
    throw usage_error("generator: {}={}: expected a number from {} to {}", key, text, low, high);
  }
  return value;
}

void set_option(GeneratorOptions& options, std::string_view key, std::string_view text) {
  constexpr std::uint64_t kMaximum = std::numeric_limits<Index>::max();
  if (key == "seed") {
    options.seed =
        parse_value<std::uint64_t>(key, text, 0, std::numeric_limits<std::uint64_t>::max());
  } else if (key == "rows_train") {
    options.rows_train = parse_value<std::uint64_t>(key, text, 1, kMaximum);
  } else if (key == "rows_test") {
    options.rows_test = parse_value<std::uint64_t>(key, text, 1, kMaximum);
  } else if (key == "features") {
    options.features = parse_value<Index>(key, text, 1, kMaximum);
  } else if (key == "labels") {
    options.labels = parse_value<Index>(key, text, 1, Index{1} << 31);
  } else if (key == "nonzeros") {
    options.nonzeros_per_sample = parse_value(key, text, 1.0, 1e6);
  } else if (key == "labels_per_sample") {
    options.labels_per_sample = parse_value(key, text, 1.0, 1e6);
  } else if (key == "feature_zipf") {
    options.feature_zipf = parse_value(key, text, 0.0, 10.0);
  } else if (key == "topic_zipf") {
    options.topic_zipf = parse_value(key, text, 0.0, 10.0);
  } else if (key == "label_zipf") {
    options.label_zipf = parse_value(key, text, 0.0, 10.0);
  } else if (key == "noise") {
    options.noise = parse_value(key, text, 0.0, 1.0);
  } else {
    throw with_hint(usage_error("generator: unknown key '{}'", key),
                    "known: scale, seed, rows_train, rows_test, features, labels, nonzeros, "
                    "labels_per_sample, feature_zipf, topic_zipf, label_zipf, noise");
  }
}

// "a=1&b=2" as pairs in order.
std::vector<std::pair<std::string_view, std::string_view>> split_settings(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> settings;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      throw with_hint(usage_error("generator: expected key=value, found '{}'", part),
                      "for example generate:amazon670k?scale=0.1&seed=1");
    }
    settings.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return settings;
}

}  // namespace

std::vector<std::string> generator_preset_names() {
  std::vector<std::string> names;
  for (const GeneratorOptions& preset : presets()) names.push_back(preset.name);
  return names;
}

GeneratorOptions generator_preset(std::string_view name, double scale) {
  const auto at = std::find_if(presets().begin(), presets().end(),
                               [&](const GeneratorOptions& preset) { return preset.name == name; });
  if (at == presets().end()) {
    throw with_hint(usage_error("generator: unknown preset '{}'", name),
                    fmt::format("known: {}", fmt::join(generator_preset_names(), ", ")));
  }
  GeneratorOptions options = *at;
  if (scale == 1.0) return options;
  if (!(scale > 0.0 && scale <= 100.0)) {
    throw usage_error("generator: scale={}: expected a number above 0, up to 100", scale);
  }
  options.name = fmt::format("{}?scale={}", name, scale);
  options.rows_train = scaled(options.rows_train, scale, 1);
  options.rows_test = scaled(options.rows_test, scale, 1);
  options.features = static_cast<Index>(scaled(options.features, scale, 8));
  options.labels = static_cast<Index>(scaled(options.labels, scale, 4));
  options.nonzeros_per_sample = std::min(options.nonzeros_per_sample, options.features / 4.0);
  options.labels_per_sample = std::min(options.labels_per_sample, options.labels / 4.0);
  return options;
}

GeneratorOptions parse_generator_spec(std::string_view spec) {
  if (!is_generator_spec(spec)) {
    throw with_hint(usage_error("'{}' is no generator specification", spec),
                    "for example generate:tiny?seed=2");
  }
  spec.remove_prefix(kGeneratorPrefix.size());
  const std::string_view name = spec.substr(0, spec.find('?'));
  const auto settings = split_settings(spec.substr(std::min(spec.size(), name.size() + 1)));
  double scale = 1.0;
  for (const auto& [key, text] : settings) {
    if (key == "scale") scale = parse_value(key, text, 1e-9, 100.0);
  }
  GeneratorOptions options = generator_preset(name, scale);
  for (const auto& [key, text] : settings) {
    if (key != "scale") set_option(options, key, text);
  }
  options.name = std::string(spec);
  return options;
}

}  // namespace hetsgd
