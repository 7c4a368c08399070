#include "core/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/bytes.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

extern "C" char** environ;  // NOLINT: POSIX gives no other list of all variables

namespace hetsgd {
namespace {

using Texts = std::vector<std::string>;
constexpr std::string_view kEnvironmentPrefix = "HETSGD_";

std::string number_text(double value) { return fmt::format("{}", value); }

bool has_minimum(const Option& option) { return std::isfinite(option.minimum); }
bool has_maximum(const Option& option) { return std::isfinite(option.maximum); }

// "a number above 0", "a whole number from 1 to 8", for error messages.
std::string expectation(const Option& option, std::string_view what) {
  const std::string_view above = option.minimum_open ? "above" : "of at least";
  if (has_minimum(option) && has_maximum(option)) {
    return option.minimum_open
               ? fmt::format("{} above {} and up to {}", what, option.minimum, option.maximum)
               : fmt::format("{} from {} to {}", what, option.minimum, option.maximum);
  }
  if (has_minimum(option)) return fmt::format("{} {} {}", what, above, option.minimum);
  if (has_maximum(option)) return fmt::format("{} of at most {}", what, option.maximum);
  return std::string(what);
}

template <class T>
T within_range(const Option& option, const std::string& place, const std::string& text, T value,
               double comparable, std::string_view what) {
  const bool low = option.minimum_open ? comparable <= option.minimum : comparable < option.minimum;
  if (low || comparable > option.maximum) {
    throw usage_error("{}: found {}, expected {}", place, quote(text), expectation(option, what));
  }
  return value;
}

int parse_int(const Option& option, const std::string& place, const std::string& text) {
  const std::int64_t value = parse_integer(place, text);
  if (value != static_cast<int>(value)) {
    throw usage_error("{}: found {}, expected a number of magnitude below 2^31", place,
                      quote(text));
  }
  return within_range(option, place, text, static_cast<int>(value), static_cast<double>(value),
                      "a whole number");
}

std::uint64_t parse_uint(const Option& option, const std::string& place, const std::string& text) {
  const std::uint64_t value = parse_count(place, text);
  return within_range(option, place, text, value, static_cast<double>(value), "a whole number");
}

double parse_number(const Option& option, const std::string& place, const std::string& text) {
  const double value = parse_double(place, text);
  return within_range(option, place, text, value, value, "a number");
}

Seconds parse_time(const Option& option, const std::string& place, const std::string& text) {
  const Seconds value = parse_seconds(place, text);
  return within_range(option, place, text, value, value.count(), "a time in seconds");
}

// Turns a parser of one text into one of several, of which the last counts.
template <class One>
auto last_of(One one) {
  return [one](const Option& option, const std::string& place, const Texts& texts) {
    HETSGD_CHECK(!texts.empty());
    return one(option, place, texts.back());
  };
}

// The same for lists: every text may hold several elements, split at commas.
template <class T, class One>
auto each_of(One one) {
  return [one](const Option& option, const std::string& place, const Texts& texts) {
    std::vector<T> values;
    for (const std::string& text : texts) {
      for (const std::string_view part : split(text, ',')) {
        values.push_back(one(option, place, std::string(trim(part))));
      }
    }
    return values;
  };
}

// What JSON must hold for an option of this type.
std::string_view kind_text(OptionType type) {
  switch (type) {
    case OptionType::boolean:
      return "true or false";
    case OptionType::integer:
    case OptionType::number:
      return "a number";
    case OptionType::count:
      return "a count such as 5000 or \"10K\"";
    case OptionType::duration:
      return "a time in seconds, or a text such as \"50ms\"";
    case OptionType::text:
    case OptionType::choice:
      return "a text";
    case OptionType::number_list:
      return "a number or a list of numbers";
    case OptionType::text_list:
      return "a text or a list of texts";
  }
  return "";
}

// One JSON value as the text that a flag would have carried; none if its type does not fit.
std::optional<std::string> text_of(const Option& option, const nlohmann::json& value) {
  const OptionType type = option.type;
  if (value.is_string()) return bytes_of_json(value.get_ref<const std::string&>());
  if (type == OptionType::text || type == OptionType::choice || type == OptionType::text_list) {
    return std::nullopt;
  }
  if (value.is_boolean() != (type == OptionType::boolean)) return std::nullopt;
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_float()) return number_text(value.get<double>());
  if (value.is_number()) return value.dump();
  return std::nullopt;
}

std::string shown(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return number_text(value.get<double>());
  if (!value.is_array()) return value.dump();
  Texts parts;
  for (const nlohmann::json& element : value) parts.push_back(shown(element));
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace

std::string_view to_string(OptionSource source) {
  switch (source) {
    case OptionSource::default_value:
      return "default";
    case OptionSource::config_file:
      return "config";
    case OptionSource::environment:
      return "environment";
    case OptionSource::flag:
      return "flag";
  }
  return "";
}

std::string Option::flag() const {
  std::string text = "--" + name;
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

std::string Option::environment() const {
  std::string text(kEnvironmentPrefix);
  for (const unsigned char c : name) text += static_cast<char>(std::toupper(c));
  return text;
}

std::string Option::range_text() const {
  if (!choices.empty()) return fmt::format("{}", fmt::join(choices, "|"));
  if (!has_minimum(*this) && !has_maximum(*this)) return "";
  const std::string low = has_minimum(*this) ? number_text(minimum) : "-inf";
  const std::string high = has_maximum(*this) ? number_text(maximum) : "inf";
  return fmt::format("{}{}, {}{}", minimum_open || !has_minimum(*this) ? "(" : "[", low, high,
                     has_maximum(*this) ? "]" : ")");
}

std::string Option::type_text() const {
  switch (type) {
    case OptionType::boolean:
      return "";
    case OptionType::integer:
      return "INTEGER";
    case OptionType::number:
      return "NUMBER";
    case OptionType::count:
      return "COUNT";
    case OptionType::duration:
      return "TIME";
    case OptionType::text:
    case OptionType::text_list:
      return "TEXT";
    case OptionType::choice:
      return range_text();
    case OptionType::number_list:
      return "NUMBER,...";
  }
  return "";
}

// --- declaring -----------------------------------------------------------------------------------

OptionRefiner OptionSet::append(Option option) {
  HETSGD_CHECK(find(option.name) == nullptr);
  option.group = group_;
  option.default_text = shown(option.to_json());
  options_.push_back(std::move(option));
  return OptionRefiner(options_.back());
}

template <class T, class Parse>
OptionRefiner OptionSet::append(const std::string& name, const std::string& help, OptionType type,
                                T& value, Parse parse) {
  Option option;
  option.name = name;
  option.help = help;
  option.type = type;
  option.parse = [&value, parse](const Option& self, const std::string& place, const Texts& texts) {
    value = parse(self, place, texts);
  };
  option.to_json = [&value]() -> nlohmann::json {
    if constexpr (std::is_same_v<T, Seconds>) {
      return number_text(value.count()) + "s";
    } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, Texts>) {
      return json_text(value);
    } else {
      return value;
    }
  };
  return append(std::move(option));
}

OptionRefiner OptionSet::add(const std::string& name, bool& value, const std::string& help) {
  return append(name, help, OptionType::boolean, value,
                last_of([](const Option&, const std::string& place, const std::string& text) {
                  return parse_bool(place, text);
                }));
}

OptionRefiner OptionSet::add(const std::string& name, int& value, const std::string& help) {
  return append(name, help, OptionType::integer, value, last_of(parse_int));
}

OptionRefiner OptionSet::add(const std::string& name, std::uint64_t& value,
                             const std::string& help) {
  return append(name, help, OptionType::count, value, last_of(parse_uint));
}

OptionRefiner OptionSet::add(const std::string& name, double& value, const std::string& help) {
  return append(name, help, OptionType::number, value, last_of(parse_number));
}

OptionRefiner OptionSet::add(const std::string& name, Seconds& value, const std::string& help) {
  return append(name, help, OptionType::duration, value, last_of(parse_time));
}

OptionRefiner OptionSet::add(const std::string& name, std::string& value, const std::string& help) {
  return append(
      name, help, OptionType::text, value,
      last_of([](const Option&, const std::string&, const std::string& text) { return text; }));
}

OptionRefiner OptionSet::add(const std::string& name, std::vector<double>& value,
                             const std::string& help) {
  return append(name, help, OptionType::number_list, value, each_of<double>(parse_number));
}

OptionRefiner OptionSet::add(const std::string& name, std::vector<std::uint64_t>& value,
                             const std::string& help) {
  return append(name, help, OptionType::number_list, value, each_of<std::uint64_t>(parse_uint));
}

OptionRefiner OptionSet::add(const std::string& name, std::vector<std::string>& value,
                             const std::string& help) {
  return append(name, help, OptionType::text_list, value,
                [](const Option&, const std::string&, const Texts& texts) { return texts; });
}

OptionRefiner OptionSet::add_choice_raw(const std::string& name, std::vector<std::string> names,
                                        const std::string& help,
                                        std::function<void(std::size_t)> set,
                                        std::function<std::size_t()> get) {
  Option option;
  option.name = name;
  option.help = help;
  option.type = OptionType::choice;
  option.choices = names;
  option.parse = [set = std::move(set)](const Option& self, const std::string& place,
                                        const Texts& texts) {
    HETSGD_CHECK(!texts.empty());
    const auto found = std::find(self.choices.begin(), self.choices.end(), texts.back());
    if (found == self.choices.end()) {
      throw with_hint(usage_error("{}: found {}, expected one of {}", place, quote(texts.back()),
                                  fmt::join(self.choices, ", ")),
                      did_you_mean(texts.back(), self.choices));
    }
    set(static_cast<std::size_t>(found - self.choices.begin()));
  };
  option.to_json = [get = std::move(get), names = std::move(names)]() -> nlohmann::json {
    HETSGD_CHECK_LT(get(), names.size());
    return names[get()];
  };
  return append(std::move(option));
}

// --- setting -------------------------------------------------------------------------------------

const Option* OptionSet::find(std::string_view name) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [name](const Option& option) { return option.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

Option& OptionSet::required(std::string_view name) {
  const Option* const option = find(name);
  HETSGD_CHECK(option != nullptr);
  return options_[static_cast<std::size_t>(option - options_.data())];
}

void OptionSet::set(std::string_view name, const Texts& texts, OptionSource source,
                    const std::string& place) {
  Option& option = required(name);
  if (source < option.source) return;
  option.parse(option, place, texts);
  option.source = source;
  option.place = place;
}

void OptionSet::set_json(std::string_view name, const nlohmann::json& value, OptionSource source,
                         const std::string& place) {
  const Option& option = required(name);
  Texts texts;
  const bool spread = option.is_list() && value.is_array();
  const nlohmann::json list = spread ? value : nlohmann::json::array({value});
  for (const nlohmann::json& element : list) {
    const std::optional<std::string> text = text_of(option, element);
    if (!text) {
      throw usage_error("{}: found {}, expected {}", place, quote(value.dump()),
                        kind_text(option.type));
    }
    texts.push_back(*text);
  }
  set(name, texts, source, place);
}

std::vector<std::string> OptionSet::read_environment() {
  std::vector<std::string> unknown;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(kEnvironmentPrefix) || equals == std::string_view::npos) continue;
    const std::string variable(text.substr(0, equals));
    const std::string value(text.substr(equals + 1));
    if (value.empty()) continue;
    const auto option = std::find_if(options_.begin(), options_.end(), [&](const Option& each) {
      return each.environment() == variable;
    });
    if (option == options_.end()) {
      unknown.push_back(variable);
    } else {
      set(option->name, {value}, OptionSource::environment, variable);
    }
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

// --- showing -------------------------------------------------------------------------------------

nlohmann::json OptionSet::to_json() const {
  nlohmann::json result = nlohmann::json::object();
  for (const Option& option : options_) {
    if (option.in_config) result[option.name] = option.to_json();
  }
  return result;
}

std::string OptionSet::describe() const {
  std::size_t name_width = 0, value_width = 0;
  for (const Option& option : options_) {
    name_width = std::max(name_width, option.name.size());
    value_width = std::max(value_width, std::min<std::size_t>(40, shown(option.to_json()).size()));
  }
  std::string text;
  for (const Option& option : options_) {
    const std::string value = shown(option.to_json());
    const std::string source = option.source == OptionSource::default_value
                                   ? std::string(to_string(option.source))
                                   : fmt::format("{} {}", to_string(option.source), option.place);
    text += fmt::format("{:<{}}  {:<{}}  {}\n", option.name, name_width,
                        value.empty() ? "\"\"" : value, value_width, source);
  }
  return text;
}

}  // namespace hetsgd
