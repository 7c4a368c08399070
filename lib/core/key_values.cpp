#include "core/key_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

KeyValues::KeyValues(std::string_view text, char separator, std::string place,
                     std::string_view example, const std::vector<Pair>& also)
    : place_(std::move(place)) {
  for (const std::string_view part : split(text, separator)) {
    const std::size_t equals = part.find('=');
    std::string key(trim(part.substr(0, equals)));
    const auto other = std::ranges::find(also, key, &Pair::first);
    if (other != also.end()) key = other->second;
    if (equals == std::string_view::npos || key.empty()) {
      refuse(place_, quote(part), fmt::format("key=value pairs such as {}", example));
    }
    if (std::ranges::find(values_, key, &Pair::first) != values_.end()) {
      throw usage_error("{}: found {} twice, expected it once", place_, quote(key));
    }
    values_.emplace_back(std::move(key), trim(part.substr(equals + 1)));
  }
}

std::string KeyValues::take(std::string_view key) {
  const auto found = std::ranges::find(values_, key, &Pair::first);
  if (found == values_.end()) return "";
  std::string value = std::move(found->second);
  values_.erase(found);
  return value;
}

void KeyValues::set(OptionSet& options) const {
  std::vector<std::string> names;
  for (const Option& option : options.options()) names.push_back(option.name);
  for (const auto& [key, value] : values_) {
    if (!options.find(key)) {
      refuse(place_, "key " + quote(key), alternatives(names), did_you_mean(key, names));
    }
    options.set(key, {value}, OptionSource::flag, fmt::format("{}: {}", place_, key));
  }
  for (const Option& option : options.options()) {
    if (option.required.empty() || option.source != OptionSource::default_value) continue;
    refuse(place_, "no " + option.name,
           fmt::format("one such as {}={}", option.name, option.required));
  }
}

void KeyValues::fail(std::string_view key, std::string_view expected) const {
  const auto found = std::ranges::find(values_, key, &Pair::first);
  HETSGD_CHECK(found != values_.end());
  refuse(fmt::format("{}: {}", place_, key), quote(found->second), expected);
}

std::string key_values(const OptionSet& options, char separator) {
  std::string text;
  for (const Option& option : options.options()) {
    const nlohmann::json value = option.to_json();
    if (!text.empty()) text += separator;
    text += fmt::format("{}={}", option.name,
                        value.is_string() ? bytes_of_json(value.get_ref<const std::string&>())
                        : value.is_number_float() ? fmt::format("{}", value.get<double>())
                                                  : value.dump());
  }
  return text;
}

}  // namespace hetsgd
