#include "data/text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

namespace {

constexpr char32_t kLastCharacter = 0x10FFFF;

}  // namespace

void CharacterReader::fail(std::size_t place, const std::string& found, const std::string& expected,
                           const std::string& hint) const {
  const auto line = std::count(begin_, begin_ + place, '\n') + 1;
  refuse(fmt::format("{}:{}: byte offset {}", path_, line, place + before_), found, expected, hint,
         ExitCode::data);
}

char32_t CharacterReader::next_of_several() {
  const auto byte = [](char c) { return static_cast<unsigned char>(c); };
  const unsigned char first = byte(*at_);
  const std::ptrdiff_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  char32_t character = first & (0x7FU >> size);
  bool valid = first >= 0xC2 && first <= 0xF4 && end_ - at_ >= size;
  for (std::ptrdiff_t i = 1; valid && i < size; ++i) {
    valid = (byte(at_[i]) & 0xC0U) == 0x80;
    character = character << 6 | (byte(at_[i]) & 0x3FU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  valid = valid && character >= kLeast[size] && character <= kLastCharacter &&
          (character < 0xD800 || character > 0xDFFF);
  if (!valid) {
    fail(place(), fmt::format("the byte 0x{:02X}", first), "text in UTF-8",
         "--tokens bytes reads any file");
  }
  at_ += size;
  return character;
}

std::string utf8_of(char32_t character) {
  std::string text;
  const auto add = [&](char32_t bits) { text += static_cast<char>(bits); };
  if (character < 0x80) {
    add(character);
  } else if (character < 0x800) {
    add(0xC0 | character >> 6);
    add(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    add(0xE0 | character >> 12);
    add(0x80 | (character >> 6 & 0x3F));
    add(0x80 | (character & 0x3F));
  } else {
    add(0xF0 | character >> 18);
    add(0x80 | (character >> 12 & 0x3F));
    add(0x80 | (character >> 6 & 0x3F));
    add(0x80 | (character & 0x3F));
  }
  return text;
}

bool is_blank_character(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r' && c != '\n') || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

}  // namespace hetsgd
