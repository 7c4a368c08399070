#include "core/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.hpp"
#include "core/option_traits.hpp"
#include "core/text.hpp"

extern "C" char** environ;  // NOLINT: POSIX gives no other list of all variables

namespace hetsgd {

using namespace option_traits;  // NOLINT: the words of this file

namespace {

constexpr std::string_view kEnvironmentPrefix = "HETSGD_";

// The names of types, in the order of OptionType: `json` for messages about JSON values, `help` for
// the placeholder in --help.
struct TypeNames {
  std::string_view json, help;
};
constexpr std::array<TypeNames, 9> kTypeNames = {
    {{"true or false", ""},
     {"a number", "INTEGER"},
     {"a number", "NUMBER"},
     {"a count such as 5000 or \"10K\"", "COUNT"},
     {"a time in seconds, or a text such as \"50ms\"", "TIME"},
     {"a text", "TEXT"},
     {"a text", ""},  // choice: its words
     {"a number or a list of numbers", "NUMBER,..."},
     {"a text or a list of texts", "TEXT"}}};

const TypeNames& names_of(OptionType type) { return kTypeNames[static_cast<std::size_t>(type)]; }

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

std::string flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
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
  static constexpr std::array<std::string_view, 4> kNames = {"default", "config", "environment",
                                                             "flag"};
  return kNames[static_cast<std::size_t>(source)];
}

std::string OptionNeed::text() const {
  const std::string flag = flag_of(option);
  return values.empty() ? flag : fmt::format("{} {}", flag, fmt::join(values, "|"));
}

nlohmann::json Option::to_json() const { return json_of(*this); }

std::string Option::flag() const { return flag_of(name); }

std::string Option::environment() const {
  std::string text(kEnvironmentPrefix);
  for (const char c : name) text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
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
  if (!absent.empty()) {
    Option given = *this;
    given.absent.clear();
    return given.type_text() + "|" + absent;
  }
  return type == OptionType::choice ? range_text() : std::string(names_of(type).help);
}

// --- declaring -----------------------------------------------------------------------------------

OptionRefiner OptionSet::append(Option option) {
  HETSGD_CHECK(find(option.name) == nullptr);
  option.group = group_;
  option.needs = needs_of_group_;
  option.default_text = shown(option.to_json());
  options_.push_back(std::move(option));
  return OptionRefiner(options_.back());
}

template <class T>
OptionRefiner OptionSet::add(const std::string& name, T& value, const std::string& help) {
  Option option;
  option.name = name;
  option.help = help;
  option.type = OptionTraits<T>::kType;
  option.absent = absent_word(value);
  option.parse = [&value](const Option& self, const std::string& place, const Texts& texts) {
    parse_texts(value, self, place, texts);
  };
  option.json_of = [&value](const Option& self) { return option_traits::json_of(self, value); };
  return append(std::move(option));
}

#define HETSGD_OPTION_OF(...) \
  template OptionRefiner OptionSet::add(const std::string&, __VA_ARGS__&, const std::string&)
HETSGD_OPTION_OF(bool);
HETSGD_OPTION_OF(int);
HETSGD_OPTION_OF(std::uint32_t);
HETSGD_OPTION_OF(std::uint64_t);
HETSGD_OPTION_OF(double);
HETSGD_OPTION_OF(Seconds);
HETSGD_OPTION_OF(std::string);
HETSGD_OPTION_OF(std::optional<int>);
HETSGD_OPTION_OF(std::optional<std::uint64_t>);
HETSGD_OPTION_OF(std::optional<double>);
HETSGD_OPTION_OF(std::optional<Seconds>);
HETSGD_OPTION_OF(std::vector<double>);
HETSGD_OPTION_OF(std::vector<std::uint64_t>);
HETSGD_OPTION_OF(Texts);
#undef HETSGD_OPTION_OF

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
      refuse(place, quote(texts.back()), fmt::format("one of {}", fmt::join(self.choices, ", ")),
             did_you_mean(texts.back(), self.choices));
    }
    set(static_cast<std::size_t>(found - self.choices.begin()));
  };
  option.json_of = [get = std::move(get),
                    names = std::move(names)](const Option&) -> nlohmann::json {
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

const OptionNeed* OptionSet::missing_need(const Option& option) const {
  const auto missing = [this](const OptionNeed& need) {
    const Option* const other = find(need.option);
    if (other == nullptr) return false;  // a command without it has decided
    if (need.values.empty()) return other->source == OptionSource::default_value;
    return std::ranges::find(need.values, shown(other->to_json())) == need.values.end();
  };
  const auto found = std::ranges::find_if(option.needs, missing);
  return found == option.needs.end() ? nullptr : &*found;
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
  Texts given = texts;
  if (!option.zero.empty()) std::ranges::replace(given, option.zero, "0");
  option.parse(option, place, given);
  option.source = source;
  option.place = place;
}

void OptionSet::set_default(std::string_view name, const std::string& text) {
  Option& option = required(name);
  HETSGD_CHECK(option.source == OptionSource::default_value);
  option.parse(option, option.flag(), {text});
  option.default_text = shown(option.to_json());
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
      refuse(place, quote(value.dump()), names_of(option.type).json);
    }
    texts.push_back(*text);
  }
  set(name, texts, source, place);
}

std::span<const std::string> variables_of_no_option() {
  static const std::vector<std::string> names = {
      "HETSGD_BINARY",       "HETSGD_CACHE_DIR",          "HETSGD_CPU",    "HETSGD_DATA_DIR",
      "HETSGD_DATASETS_DIR", "HETSGD_OUTER_LIBRARY_PATH", "HETSGD_PYTHON", "HETSGD_VERSION"};
  return names;
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
