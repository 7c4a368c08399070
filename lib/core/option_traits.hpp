// How the options of each type are parsed, checked and shown. Internal to core/options.cpp.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/options.hpp"
#include "core/text.hpp"

namespace hetsgd::option_traits {

using Texts = std::vector<std::string>;

inline std::string number_text(double value) { return fmt::format("{}", value); }

inline bool has_minimum(const Option& option) { return std::isfinite(option.minimum); }
inline bool has_maximum(const Option& option) { return std::isfinite(option.maximum); }

// "a number above 0", "a whole number from 1 to 8", for error messages.
inline std::string expectation(const Option& option, std::string_view what) {
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
    refuse(place, quote(text), expectation(option, what));
  }
  return value;
}

// How the options of a type are parsed and shown. `parse` takes one text: of several the last one
// counts, except for lists.
template <class T>
struct OptionTraits;

template <>
struct OptionTraits<bool> {
  static constexpr OptionType kType = OptionType::boolean;
  static bool parse(const Option&, const std::string& place, const std::string& text) {
    return parse_bool(place, text);
  }
};

template <>
struct OptionTraits<int> {
  static constexpr OptionType kType = OptionType::integer;
  static int parse(const Option& option, const std::string& place, const std::string& text) {
    const std::int64_t value = parse_integer(place, text);
    if (value != static_cast<int>(value)) {
      refuse(place, quote(text), "a number of magnitude below 2^31");
    }
    return within_range(option, place, text, static_cast<int>(value), static_cast<double>(value),
                        "a whole number");
  }
};

template <>
struct OptionTraits<std::uint64_t> {
  static constexpr OptionType kType = OptionType::count;
  static std::uint64_t parse(const Option& option, const std::string& place,
                             const std::string& text) {
    const std::uint64_t value =
        option.unit == "bytes" ? parse_bytes(place, text) : parse_count(place, text);
    return within_range(option, place, text, value, static_cast<double>(value), "a whole number");
  }
};

template <>
struct OptionTraits<std::uint32_t> {  // for options whose maximum fits
  static constexpr OptionType kType = OptionType::count;
  static std::uint32_t parse(const Option& option, const std::string& place,
                             const std::string& text) {
    return static_cast<std::uint32_t>(OptionTraits<std::uint64_t>::parse(option, place, text));
  }
};

template <>
struct OptionTraits<double> {
  static constexpr OptionType kType = OptionType::number;
  static double parse(const Option& option, const std::string& place, const std::string& text) {
    const double value = parse_double(place, text);
    return within_range(option, place, text, value, value, "a number");
  }
};

template <>
struct OptionTraits<Seconds> {
  static constexpr OptionType kType = OptionType::duration;
  static Seconds parse(const Option& option, const std::string& place, const std::string& text) {
    const Seconds value = parse_seconds(place, text);
    return within_range(option, place, text, value, value.count(), "a time in seconds");
  }
};

template <>
struct OptionTraits<std::string> {
  static constexpr OptionType kType = OptionType::text;
  static std::string parse(const Option&, const std::string&, const std::string& text) {
    return text;
  }
};

template <class T>
struct OptionTraits<std::optional<T>> {
  static constexpr OptionType kType = OptionTraits<T>::kType;
  static std::optional<T> parse(const Option& option, const std::string& place,
                                const std::string& text) {
    if (text == option.absent || (!text.empty() && text == option.absent_too)) return std::nullopt;
    try {
      return OptionTraits<T>::parse(option, place, text);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}, or {}", error.what(), option.absent));
    }
  }
};

// Lists: every text may hold several elements, split at commas.
template <class T>
struct OptionTraits<std::vector<T>> {
  static constexpr OptionType kType = OptionType::number_list;
};
template <>
struct OptionTraits<Texts> {
  static constexpr OptionType kType = OptionType::text_list;
};

// The texts of a list. There are none if the only text is the word for an empty list.
inline Texts without_absent(const Option& option, const Texts& texts) {
  const bool empty = texts.size() == 1 && !option.absent.empty() && texts[0] == option.absent;
  return empty ? Texts() : texts;
}

template <class T>
void parse_texts(T& value, const Option& option, const std::string& place, const Texts& texts) {
  HETSGD_CHECK(!texts.empty());
  value = OptionTraits<T>::parse(option, place, texts.back());
}
template <class T>
void parse_texts(std::vector<T>& list, const Option& option, const std::string& place,
                 const Texts& texts) {
  std::vector<T> values;
  for (const std::string& text : without_absent(option, texts)) {
    for (const std::string_view part : split(text, ',')) {
      values.push_back(OptionTraits<T>::parse(option, place, std::string(trim(part))));
    }
  }
  list = std::move(values);
}
inline void parse_texts(Texts& list, const Option& option, const std::string&, const Texts& texts) {
  list = without_absent(option, texts);
}

template <class T>
nlohmann::json json_of(const Option&, const T& value) {
  return value;
}
inline nlohmann::json json_of(const Option&, const Seconds& value) {
  return number_text(value.count()) + "s";
}
inline nlohmann::json json_of(const Option&, const std::string& value) { return json_text(value); }
inline nlohmann::json json_of(const Option&, const Texts& value) { return json_text(value); }
template <class T>
nlohmann::json json_of(const Option& option, const std::vector<T>& value) {
  if (value.empty() && !option.absent.empty()) return option.absent;
  return value;
}
template <class T>
nlohmann::json json_of(const Option& option, const std::optional<T>& value) {
  return value ? json_of(option, *value) : nlohmann::json(option.absent);
}

template <class T>
constexpr std::string_view absent_word(const T&) {
  return "";
}
template <class T>
constexpr std::string_view absent_word(const std::optional<T>&) {
  return "auto";
}

}  // namespace hetsgd::option_traits
