#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/key_values.hpp"
#include "data/generate.hpp"
#include "data/generate_ctr.hpp"
#include "data/source.hpp"

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

constexpr double kSmallestScale = 1e-9, kLargestScale = 100;

// The keys of a specification.
void declare(OptionSet& set, GeneratorOptions& o, double& scale) {
  constexpr double kMost = 4294967295.0;  // what an index counts
  set.add("scale", scale, "").range(kSmallestScale, kLargestScale);
  set.add("seed", o.seed, "");
  set.add("rows_train", o.rows_train, "").range(1, kMost);
  set.add("rows_test", o.rows_test, "").range(1, kMost);
  set.add("features", o.features, "").range(1, kMost);
  set.add("labels", o.labels, "").range(1, 2147483648.0);
  set.add("nonzeros", o.nonzeros_per_sample, "").range(1, 1e6);
  set.add("labels_per_sample", o.labels_per_sample, "").range(1, 1e6);
  set.add("feature_zipf", o.feature_zipf, "").range(0, 10);
  set.add("topic_zipf", o.topic_zipf, "").range(0, 10);
  set.add("label_zipf", o.label_zipf, "").range(0, 10);
  set.add("noise", o.noise, "").range(0, 1);
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
  if (!(scale >= kSmallestScale && scale <= kLargestScale)) {
    throw usage_error("generator: scale: found {}, expected a number from {} to {}", scale,
                      kSmallestScale, kLargestScale);
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

GeneratorParts generator_parts(std::string_view spec) {
  HETSGD_CHECK(is_generator_spec(spec));
  const std::string_view name = spec.substr(kGeneratorPrefix.size());
  const std::string_view preset = name.substr(0, name.find('?'));
  return {name, preset, name.substr(std::min(name.size(), preset.size() + 1))};
}

GeneratorOptions parse_generator_spec(std::string_view spec) {
  if (!is_generator_spec(spec)) {
    throw with_hint(usage_error("'{}' is no generator specification", spec),
                    "for example generate:tiny?seed=2");
  }
  const auto [name, preset, settings] = generator_parts(spec);
  double scale = 1.0;
  GeneratorOptions options = generator_preset(preset);
  if (!settings.empty()) {
    const KeyValues values(settings, '&', std::string(spec), "scale=0.1&seed=1");
    const auto read = [&] {
      OptionSet set;
      declare(set, options, scale);
      values.set(set);
    };
    read();  // the scale, of which the preset is made that the others change
    options = generator_preset(preset, scale);
    read();
  }
  options.name = name;
  return options;
}

void check_generator_options(const GeneratorOptions& options) {
  GeneratorOptions copy = options;
  double scale = 1;
  OptionSet set;
  declare(set, copy, scale);
  for (const Option& option : set.options()) {
    set.set_json(option.name, option.to_json(), OptionSource::flag, "generator: " + option.name);
  }
}

// The presets of click data and what a specification may change of them.

namespace {

struct ClickPreset {
  std::string_view name;
  std::uint64_t rows_train, rows_test;
  double days;
};

constexpr std::uint64_t kKaggleRows = 45'840'617, kKaggleTestRows = 6'548'660;  // the last seventh
constexpr std::array<ClickPreset, 3> kClickPresets = {
    {{"criteo", kKaggleRows - kKaggleTestRows, kKaggleTestRows, 7},
     {"criteo-terabyte", 4'195'197'692, 89'137'319, 24},
     {"ctr-tiny", 20'000, 5'000, 7}}};

constexpr double kMostRows = 4294967295.0;
constexpr double kMostDays = 3650, kShortestDrift = 0.1;  // 2^16 generations at most

const ClickPreset* find_click_preset(std::string_view name) {
  const auto* const at = std::ranges::find(kClickPresets, name, &ClickPreset::name);
  return at == kClickPresets.end() ? nullptr : at;
}

// Rows of both parts, in the preset's proportion.
void scale_rows(ClickOptions& options, const ClickPreset& preset, double scale) {
  const auto all = static_cast<double>(preset.rows_train + preset.rows_test);
  const auto rows = static_cast<std::uint64_t>(std::max(2.0, std::round(all * scale)));
  const double share = static_cast<double>(preset.rows_test) / all;
  options.rows_test =
      static_cast<std::uint64_t>(std::max(1.0, std::round(share * static_cast<double>(rows))));
  options.rows_train = rows - options.rows_test;
}

}  // namespace

std::vector<std::string> click_preset_names() {
  std::vector<std::string> names;
  for (const ClickPreset& preset : kClickPresets) names.emplace_back(preset.name);
  return names;
}

bool is_click_spec(std::string_view spec) {
  return is_generator_spec(spec) && find_click_preset(generator_parts(spec).preset) != nullptr;
}

ClickOptions parse_click_spec(std::string_view spec) {
  HETSGD_CHECK(is_click_spec(spec));
  const GeneratorParts parts = generator_parts(spec);
  const ClickPreset& preset = *find_click_preset(parts.preset);
  ClickOptions options;
  options.preset = preset.name;
  options.name = parts.name;
  options.days = preset.days;
  double scale = 1;
  if (!parts.settings.empty()) {
    OptionSet set;
    set.add("scale", scale, "").range(1e-9, 50);
    set.add("seed", options.seed, "");
    set.add("days", options.days, "").range(1e-3, kMostDays);
    set.add("drift_days", options.drift_days, "").range(0, 1e6);
    set.add("signal", options.signal, "").range(0, 100);
    KeyValues(parts.settings, '&', std::string(spec), "scale=0.1&seed=1").set(set);
  }
  if (options.drift_days > 0 && options.drift_days < kShortestDrift) {
    throw with_hint(usage_error("{}: drift_days: found {}, expected 0 or at least {}", spec,
                                options.drift_days, kShortestDrift),
                    "0 means that ids stay");
  }
  scale_rows(options, preset, scale);
  if (static_cast<double>(options.rows()) > kMostRows) {
    throw usage_error("{}: scale: {} are {} rows, expected at most {}", spec, scale, options.rows(),
                      kMostRows);
  }
  return options;
}

std::uint64_t click_hash(const ClickOptions& o, DataPart part) {
  constexpr int kVersion = 1;  // raise it when other bytes come out
  return content_hash(fmt::format("{} {} {} {} {} {} {} {} {}", kVersion, o.preset, o.rows_train,
                                  o.rows_test, o.days, o.drift_days, o.signal, o.seed,
                                  part == DataPart::train ? "train" : "test"));
}

}  // namespace hetsgd
