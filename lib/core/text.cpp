#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd {
namespace {

constexpr std::string_view kEscaped = "bytes:";

unsigned char byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

// A control character in the form of printable(); "" if it may stay.
std::string shown_control(std::string_view character) {
  const unsigned char first = byte_at(character, 0);
  if (first == '\n') return "\\n";
  if (first == '\t') return "\\t";
  if (first == '\r') return "\\r";
  if (first < 0x20 || first == 0x7F) return fmt::format("\\x{:02x}", first);
  const unsigned char second = byte_at(character, 1);
  if (first == 0xC2 && second < 0xA0) return fmt::format("\\u{:04x}", second);
  return "";
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  // The second byte is narrower after four of the first ones.
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte_at(text, 1) < low || byte_at(text, 1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string json_text(std::string_view bytes) {
  if (is_utf8(bytes) && !bytes.starts_with(kEscaped)) return std::string(bytes);
  std::string text(kEscaped);
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0 || bytes.front() == '%') {
      text += fmt::format("%{:02X}", byte_at(bytes, 0));
    } else {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::vector<std::string> json_text(std::vector<std::string> list) {
  for (std::string& each : list) each = json_text(each);
  return list;
}

std::string bytes_of_json(std::string_view text) {
  if (!text.starts_with(kEscaped)) return std::string(text);
  std::string bytes;
  for (std::size_t i = kEscaped.size(); i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned byte = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    const bool escaped = text[i] == '%' && error == std::errc() && end == digits.data() + 2;
    bytes += escaped ? static_cast<char>(byte) : text[i];
    if (escaped) i += 2;
  }
  return bytes;
}

std::string printable(std::string_view text, Lines lines) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(character.size());
    if (length == 0) {
      result += fmt::format("\\x{:02x}", byte_at(character, 0));
      continue;
    }
    const bool kept = lines == Lines::keep && (character == "\n" || character == "\t");
    const std::string control = kept ? "" : shown_control(character);
    result += control.empty() ? character : std::string_view(control);
  }
  return result;
}

namespace {

constexpr std::string_view kTimeExample = "a time such as 90s, 50ms or 1.5h";
constexpr std::string_view kCountExample = "a count such as 500, 10K or 1.5M";
constexpr std::string_view kBytesExample = "a size in bytes such as 4096, 64K or 64MiB";

[[noreturn]] void refuse_text(std::string_view option, std::string_view text,
                              std::string_view expected) {
  refuse(option, quote(text), expected);
}

// The number at the beginning and what follows it; nullopt when there is no finite number.
struct NumberAndSuffix {
  double number;
  std::string suffix;  // lower case
};

std::optional<NumberAndSuffix> read_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number)) return std::nullopt;
  const auto used = static_cast<std::size_t>(end - text.data());
  return NumberAndSuffix{number, lower(text.substr(used))};
}

struct Scale {
  std::string_view suffix;
  double factor;
};

std::uint64_t parse_scaled(std::string_view option, std::string_view text,
                           std::span<const Scale> scales, std::string_view expected) {
  std::uint64_t exact = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exact);
  if (error == std::errc{} && end == text.data() + text.size()) return exact;

  const auto parsed = read_number(text);
  if (!parsed || std::signbit(parsed->number)) refuse_text(option, text, expected);
  for (const Scale& scale : scales) {
    if (parsed->suffix != scale.suffix) continue;
    const double value = parsed->number * scale.factor;
    if (value >= 0x1p63) refuse_text(option, text, "less than 2^63");
    // 0.1M is 100,000 although 0.1 has no exact binary form: only a real remainder is refused.
    const double whole = std::round(value);
    if (std::abs(value - whole) > 1e-9 * std::max(1.0, value)) break;
    return static_cast<std::uint64_t>(whole);
  }
  refuse_text(option, text, expected);
}

// "at least 1", "0 .. 10", "at most 5"; empty without limits.
template <class T>
std::string range_text(T min, T max) {
  const bool low = min != std::numeric_limits<T>::lowest();
  const bool high = max != std::numeric_limits<T>::max();
  if (low && high) return fmt::format(" from {} to {}", min, max);
  if (low) return fmt::format(" of at least {}", min);
  if (high) return fmt::format(" of at most {}", max);
  return "";
}

}  // namespace

double parse_double(std::string_view option, std::string_view text, double min, double max) {
  const auto parsed = read_number(text);
  if (!parsed || !parsed->suffix.empty() || parsed->number < min || parsed->number > max) {
    refuse_text(option, text, "a number" + range_text(min, max));
  }
  return parsed->number;
}

std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t min,
                           std::int64_t max) {
  std::int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last || value < min || value > max) {
    refuse_text(option, text, "a whole number" + range_text(min, max));
  }
  return value;
}

std::uint64_t parse_count(std::string_view option, std::string_view text) {
  static constexpr std::array<Scale, 4> kScales{{{"", 1}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}}};
  return parse_scaled(option, text, kScales, kCountExample);
}

std::uint64_t parse_bytes(std::string_view option, std::string_view text) {
  static constexpr std::array<Scale, 10> kScales{{{"", 1},
                                                  {"b", 1},
                                                  {"k", 0x1p10},
                                                  {"kib", 0x1p10},
                                                  {"m", 0x1p20},
                                                  {"mib", 0x1p20},
                                                  {"g", 0x1p30},
                                                  {"gib", 0x1p30},
                                                  {"t", 0x1p40},
                                                  {"tib", 0x1p40}}};
  return parse_scaled(option, text, kScales, kBytesExample);
}

Seconds parse_seconds(std::string_view option, std::string_view text) {
  // Below a second the unit divides: 50/1e3 is the double nearest to 0.05, 50*1e-3 need not be.
  struct Unit {
    std::string_view suffix;
    double multiply, divide;
  };
  static constexpr std::array<Unit, 9> kUnits{{{"", 1, 1},
                                               {"s", 1, 1},
                                               {"ms", 1, 1e3},
                                               {"us", 1, 1e6},
                                               {"ns", 1, 1e9},
                                               {"m", 60, 1},
                                               {"min", 60, 1},
                                               {"h", 3600, 1},
                                               {"d", 86400, 1}}};
  const auto parsed = read_number(text);
  if (!parsed || std::signbit(parsed->number)) refuse_text(option, text, kTimeExample);
  for (const Unit& unit : kUnits) {
    if (parsed->suffix != unit.suffix) continue;
    const double value = parsed->number * unit.multiply / unit.divide;
    if (!std::isfinite(value)) break;
    return Seconds(value);
  }
  refuse_text(option, text, kTimeExample);
}

bool parse_bool(std::string_view option, std::string_view text) {
  const std::string word = lower(text);
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  refuse_text(option, text, "true or false");
}

std::vector<double> parse_doubles(std::string_view option, std::string_view text, double min,
                                  double max) {
  std::vector<double> values;
  for (const std::string_view part : split(text, ',')) {
    values.push_back(parse_double(option, trim(part), min, max));
  }
  return values;
}

std::vector<int> parse_rank_set(std::string_view option, std::string_view text, int size) {
  const auto fail = [&] {
    refuse_text(option, text, fmt::format("ranks from 0 to {} such as 0-3;5, or all", size - 1));
  };
  std::vector<bool> member(at(size), text == "all");
  for (const std::string_view part : split(text, ';')) {
    if (text == "all") break;
    const std::vector<std::string_view> ends = split(trim(part), '-');
    int bounds[2] = {0, 0};
    if (ends.size() > 2) fail();
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const char* const last = ends[i].data() + ends[i].size();
      const auto [end, error] = std::from_chars(ends[i].data(), last, bounds[i]);
      if (error != std::errc{} || end != last) fail();
    }
    if (ends.size() == 1) bounds[1] = bounds[0];
    if (bounds[0] < 0 || bounds[1] < bounds[0] || bounds[1] >= size) fail();
    std::fill(member.begin() + bounds[0], member.begin() + bounds[1] + 1, true);
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) {
    if (member[at(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

std::string format_rank_set(std::span<const int> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ';';
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string format_seconds(Seconds time) {
  const double s = time.count();
  const double magnitude = std::abs(s);
  if (!std::isfinite(s)) return fmt::format("{} s", s);
  if (magnitude == 0) return "0 s";
  if (magnitude < 0.9995e-6) return fmt::format("{:.3g} ns", s * 1e9);
  if (magnitude < 0.9995e-3) return fmt::format("{:.3g} us", s * 1e6);
  if (magnitude < 0.9995) return fmt::format("{:.3g} ms", s * 1e3);
  if (magnitude < 99.95) return fmt::format("{:.3g} s", s);
  const char* const sign = s < 0 ? "-" : "";
  if (magnitude >= 1e15) return fmt::format("{:.3g} s", s);
  const auto whole = static_cast<std::int64_t>(std::llround(magnitude));
  if (whole < 3600) return fmt::format("{}{}m {:02}s", sign, whole / 60, whole % 60);
  const std::int64_t minutes = std::llround(magnitude / 60);
  if (minutes < 48 * 60) return fmt::format("{}{}h {:02}m", sign, minutes / 60, minutes % 60);
  const std::int64_t hours = std::llround(magnitude / 3600);
  return fmt::format("{}{}d {:02}h", sign, hours / 24, hours % 24);
}

std::string format_bytes(double bytes) {
  static constexpr std::array<std::string_view, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string format_count(double count) {
  static constexpr std::array<std::string_view, 5> kUnits{"", "K", "M", "G", "T"};
  if (std::abs(count) < 9999.5) {
    if (count != std::round(count)) return fmt::format("{:.4g}", count);
    const auto whole = static_cast<std::int64_t>(count);
    const std::int64_t rest = std::abs(whole) % 1000;
    return std::abs(whole) < 1000 ? fmt::format("{}", whole)
                                  : fmt::format("{},{:03}", whole / 1000, rest);
  }
  std::size_t unit = 0;
  while (std::abs(count) >= 999.5 && unit + 1 < kUnits.size()) {
    count /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}", count, kUnits[unit]);
}

std::string quote(std::string_view text) {
  constexpr std::size_t kShown = 60;
  std::size_t shown = 0;  // whole characters only
  std::string result = "\"";
  while (shown < text.size()) {
    const std::string_view rest = text.substr(shown);
    const std::string_view character = rest.substr(0, std::max<std::size_t>(utf8_length(rest), 1));
    if (shown + character.size() > kShown) break;
    if (character == "\"" || character == "\\") result += '\\';
    result += printable(character);
    shown += character.size();
  }
  result += shown < text.size() ? "...\"" : "\"";
  return result;
}

std::string alternatives(std::span<const std::string> words) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) result += i + 1 == words.size() ? " or " : ", ";
    result += words[i];
  }
  return result;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  const auto plain = [](std::string_view text) {
    std::string result = lower(text);
    std::replace(result.begin(), result.end(), '_', '-');
    const std::size_t start = result.find_first_not_of('-');
    return start == std::string::npos ? std::string{} : result.substr(start);
  };
  const std::string wanted = plain(word);
  if (wanted.empty()) return std::nullopt;
  const std::string* best = nullptr;
  const std::string* begins = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::string other = plain(candidate);
    const std::size_t letters = std::max(wanted.size(), other.size());
    const std::size_t most = std::max<std::size_t>(1, letters / 3);
    // The lengths alone may tell: a word of megabytes must not be compared letter by letter.
    const bool near = letters - std::min(wanted.size(), other.size()) <= most;
    const std::size_t distance = near ? edit_distance(wanted, other) : letters;
    if (distance <= most && distance < letters && (!best || distance < best_distance)) {
      best = &candidate;
      best_distance = distance;
    }
    if (!begins && wanted.size() >= 3 && other.starts_with(wanted)) begins = &candidate;
  }
  if (!best) best = begins;
  return best ? std::optional<std::string>(*best) : std::nullopt;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto best = nearest(word, candidates);
  return best ? fmt::format("did you mean \"{}\"?", *best) : "";
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace hetsgd
