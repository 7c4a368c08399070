// The presets of click data and what a specification may change of them.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.hpp"
#include "core/key_values.hpp"
#include "data/generate.hpp"
#include "data/generate_ctr.hpp"
#include "data/source.hpp"

namespace hetsgd {

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
