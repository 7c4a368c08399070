#include "cluster/json_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

std::string shown(const nlohmann::json& value) {
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  constexpr std::size_t kShown = 60;
  std::string text = value.dump();
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

bool is_positive(const nlohmann::json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0;
}

}  // namespace

JsonFields::JsonFields(std::string place, std::string_view text) : place_(std::move(place)) {
  try {
    object_ = nlohmann::json::parse(text, nullptr, true, true);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t end = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const std::string_view before = text.substr(0, end);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t start = before.rfind('\n');
    throw data_error("{}:{}:{}: found {}, expected JSON", place_, line,
                     start == std::string_view::npos ? end + 1 : end - start,
                     end < text.size() ? quote(text.substr(end, 12)) : "the end of the file");
  } catch (const nlohmann::json::out_of_range&) {
    throw data_error("{}: found a number too large for a double, expected JSON", place_);
  }
  if (!object_.is_object()) {
    throw data_error("{}: found {}, expected a JSON object", place_, shown(object_));
  }
}

void JsonFields::allow(std::span<const std::string> known) const {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw with_hint(
        data_error("{}: found key {}, expected {}", place_, quote(key), alternatives(known)),
        did_you_mean(key, known));
  }
}

const nlohmann::json& JsonFields::at(const std::string& key, std::string_view expected) const {
  const auto found = object_.find(key);
  if (found == object_.end()) {
    throw data_error("{}: {}: found nothing, expected {}", place_, key, expected);
  }
  return *found;
}

void JsonFields::fail(const std::string& key, const nlohmann::json& found,
                      std::string_view expected) const {
  throw data_error("{}: {}: found {}, expected {}", place_, key, shown(found), expected);
}

std::string JsonFields::text(const std::string& key) const {
  constexpr std::string_view kExpected = "a text";
  const nlohmann::json& value = at(key, kExpected);
  if (!value.is_string()) fail(key, value, kExpected);
  return value.get<std::string>();
}

std::string JsonFields::text(const std::string& key, const std::string& default_value) const {
  return object_.contains(key) ? text(key) : default_value;
}

double JsonFields::number(const std::string& key, double min) const {
  const std::string expected = fmt::format("a number of at least {}", min);
  const nlohmann::json& value = at(key, expected);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < min) {
    fail(key, value, expected);
  }
  return value.get<double>();
}

double JsonFields::positive(const std::string& key) const {
  constexpr std::string_view kExpected = "a number above 0";
  const nlohmann::json& value = at(key, kExpected);
  if (!is_positive(value)) fail(key, value, kExpected);
  return value.get<double>();
}

bool JsonFields::boolean(const std::string& key, bool default_value) const {
  if (!object_.contains(key)) return default_value;
  const nlohmann::json& value = object_.at(key);
  if (!value.is_boolean()) fail(key, value, "true or false");
  return value.get<bool>();
}

std::vector<double> JsonFields::positives(const std::string& key,
                                          std::vector<double> default_value) const {
  if (!object_.contains(key)) return default_value;
  const nlohmann::json& value = object_.at(key);
  if (!value.is_array() || value.empty() ||
      !std::all_of(value.begin(), value.end(), [](const auto& v) { return is_positive(v); })) {
    fail(key, value, "a list of numbers above 0");
  }
  return value.get<std::vector<double>>();
}

std::size_t JsonFields::choice(const std::string& key, std::span<const std::string> choices,
                               std::size_t default_choice) const {
  if (!object_.contains(key)) return default_choice;
  const nlohmann::json& value = object_.at(key);
  const auto found = std::find(choices.begin(), choices.end(), value);
  if (found == choices.end()) {
    fail(key, value, alternatives(choices));
  }
  return static_cast<std::size_t>(found - choices.begin());
}

JsonFields find_json_file(std::string_view option, const std::string& name_or_path,
                          const std::vector<BuiltinFile>& builtin) {
  for (const BuiltinFile& file : builtin) {
    if (file.name == name_or_path) {
      return {fmt::format("built-in {} {}", option, file.name), file.text};
    }
  }
  const bool is_path = name_or_path.find('/') != std::string::npos ||
                       name_or_path.ends_with(".json") || std::filesystem::exists(name_or_path);
  std::vector<std::string> expected = names_of(builtin);
  expected.emplace_back("a JSON file");
  if (!is_path) {
    throw with_hint(usage_error("--{}: found {}, expected {}", option, quote(name_or_path),
                                alternatives(expected)),
                    did_you_mean(name_or_path, names_of(builtin)));
  }
  std::ifstream input(name_or_path, std::ios::binary);
  if (!input || std::filesystem::is_directory(name_or_path)) {
    throw data_error("{}: cannot be read, expected a JSON file for --{}", name_or_path, option);
  }
  const std::string text{std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
  return {name_or_path, text};
}

std::vector<std::string> names_of(const std::vector<BuiltinFile>& files) {
  std::vector<std::string> names;
  for (const BuiltinFile& file : files) names.emplace_back(file.name);
  return names;
}

}  // namespace hetsgd
