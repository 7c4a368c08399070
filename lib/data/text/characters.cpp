#include "data/text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

void CharacterReader::fail(std::size_t place, const std::string& found, const std::string& expected,
                           const std::string& hint) const {
  const auto line = std::count(begin_, begin_ + place, '\n') + 1;
  refuse(fmt::format("{}:{}: byte offset {}", path_, line, place + before_), found, expected, hint,
         ExitCode::data);
}

char32_t CharacterReader::next_of_several() {
  const auto byte = [this](std::size_t i) { return static_cast<unsigned char>(at_[i]); };
  const std::size_t size = utf8_length({at_, end_});
  if (size == 0) {
    fail(place(), fmt::format("the byte 0x{:02X}", byte(0)), "text in UTF-8",
         "--tokens bytes reads any file");
  }
  char32_t character = byte(0) & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) character = character << 6 | (byte(i) & 0x3FU);
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
