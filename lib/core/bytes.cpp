#include "core/bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

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

}  // namespace hetsgd
