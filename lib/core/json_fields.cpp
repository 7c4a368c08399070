#include "core/json_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/json_file.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

// A profile or a network is a page; nobody writes a megabyte of it.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;

std::string in_a_message(const nlohmann::json& value) {
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  constexpr std::size_t kShown = 60;
  std::string text = value.dump();
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

bool is_within(const nlohmann::json& value, const FieldRange& range) {
  return value.is_number() && value.get<double>() >= range.min && value.get<double>() <= range.max;
}

// "numbers from 0 to 1000 s"
std::string range_text(std::string_view what, const FieldRange& range) {
  return fmt::format("{} from {} to {}{}{}", what, range.min, range.max,
                     range.unit.empty() ? "" : " ", range.unit);
}

}  // namespace

JsonFields::JsonFields(std::string place, std::string_view text) : place_(std::move(place)) {
  object_ = parse_json(text, place_, JsonComments::allowed);
  if (!object_.is_object()) {
    throw data_error("{}: found {}, expected a JSON object", place_, in_a_message(object_));
  }
}

bool JsonFields::is_null(const std::string& key) const {
  return !object_.contains(key) || object_.at(key).is_null();
}

bool JsonFields::is_text(const std::string& key) const {
  return object_.contains(key) && object_.at(key).is_string();
}

bool JsonFields::is_list(const std::string& key) const {
  return object_.contains(key) && object_.at(key).is_array();
}

JsonFields JsonFields::object(const std::string& key) const {
  constexpr std::string_view kExpected = "an object";
  const nlohmann::json& value = at(key, kExpected);
  if (!value.is_object()) fail(key, value, kExpected);
  JsonFields inner;
  inner.place_ = fmt::format("{}: {}", place_, key);
  inner.object_ = value;
  return inner;
}

std::vector<JsonFields> JsonFields::objects(const std::string& key) const {
  constexpr std::string_view kExpected = "a list of objects";
  const nlohmann::json& list = at(key, kExpected);
  if (!list.is_array() || list.empty()) fail(key, list, kExpected);
  std::vector<JsonFields> inner;
  for (const nlohmann::json& value : list) {
    const std::string place = fmt::format("{}[{}]", key, inner.size());
    if (!value.is_object()) fail(place, value, "an object");
    JsonFields& fields = inner.emplace_back(JsonFields());
    fields.place_ = fmt::format("{}: {}", place_, place);
    fields.object_ = value;
  }
  return inner;
}

void JsonFields::refuse(const std::string& key, std::string_view expected) const {
  fail(key, at(key, expected), expected);
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
  throw data_error("{}: {}: found {}, expected {}", place_, key, in_a_message(found), expected);
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

double JsonFields::number(const std::string& key, const FieldRange& range) const {
  const std::string expected = range_text("a number", range);
  const nlohmann::json& value = at(key, expected);
  if (!is_within(value, range)) fail(key, value, expected);
  return value.get<double>();
}

int JsonFields::whole_number(const std::string& key, const FieldRange& range,
                             int default_value) const {
  if (!object_.contains(key)) return default_value;
  const nlohmann::json& value = object_.at(key);
  if (!value.is_number_integer() || !is_within(value, range)) {
    fail(key, value, range_text("a whole number", range));
  }
  return value.get<int>();
}

bool JsonFields::boolean(const std::string& key, bool default_value) const {
  if (!object_.contains(key)) return default_value;
  const nlohmann::json& value = object_.at(key);
  if (!value.is_boolean()) fail(key, value, "true or false");
  return value.get<bool>();
}

std::vector<double> JsonFields::numbers(const std::string& key, const FieldRange& range,
                                        std::vector<double> default_value) const {
  if (!object_.contains(key)) return default_value;
  const nlohmann::json& value = object_.at(key);
  if (!value.is_array() || value.empty() ||
      !std::all_of(value.begin(), value.end(),
                   [&](const auto& v) { return is_within(v, range); })) {
    fail(key, value, range_text("a list of numbers", range));
  }
  return value.get<std::vector<double>>();
}

std::vector<std::string> JsonFields::texts(const std::string& key) const {
  constexpr std::string_view kExpected = "a list of texts";
  const nlohmann::json& value = at(key, kExpected);
  if (!value.is_array() || value.empty() ||
      !std::all_of(value.begin(), value.end(), [](const auto& v) { return v.is_string(); })) {
    fail(key, value, kExpected);
  }
  return value.get<std::vector<std::string>>();
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

JsonFields find_json_file(std::string_view place, std::string_view noun,
                          const std::string& name_or_path,
                          const std::vector<BuiltinFile>& builtin) {
  for (const BuiltinFile& file : builtin) {
    if (file.name == name_or_path)
      return {fmt::format("built-in {} {}", noun, file.name), file.text};
  }
  const bool is_path = name_or_path.find('/') != std::string::npos ||
                       name_or_path.ends_with(".json") || std::filesystem::exists(name_or_path);
  std::vector<std::string> expected = names_of(builtin);
  expected.emplace_back("a JSON file");
  if (!is_path) {
    throw with_hint(usage_error("{}: found {}, expected {}", place, quote(name_or_path),
                                alternatives(expected)),
                    did_you_mean(name_or_path, names_of(builtin)));
  }
  const std::string file = fmt::format("JSON file for {}", place);
  return {name_or_path, read_text_file(name_or_path, {.noun = file}, kMostBytes)};
}

std::vector<std::string> names_of(const std::vector<BuiltinFile>& files) {
  std::vector<std::string> names;
  for (const BuiltinFile& file : files) names.emplace_back(file.name);
  return names;
}

}  // namespace hetsgd
