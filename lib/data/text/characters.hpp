// Unicode text in UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hetsgd {

// A text that is read character by character. `path` and the bytes before `text` in its file
// (a byte order mark) only name places in messages.
class CharacterReader {
 public:
  CharacterReader(std::string_view text, const std::string& path, std::size_t before)
      : begin_(text.data()),
        at_(text.data()),
        end_(text.data() + text.size()),
        path_(path),
        before_(before) {}

  bool at_end() const { return at_ == end_; }
  std::size_t place() const { return static_cast<std::size_t>(at_ - begin_); }  // in bytes
  // The next character, which must be there. Throws Error(data) naming line and byte offset for
  // bytes that are not UTF-8 (RFC 3629: no overlong forms, no surrogates).
  char32_t next() {
    const auto byte = static_cast<unsigned char>(*at_);
    if (byte < 0x80) {
      ++at_;
      return byte;
    }
    return next_of_several();
  }
  // Whether the text goes on with a line end.
  bool before_line_end() const { return at_ != end_ && *at_ == '\n'; }
  // Throws Error(data) about the byte at `place`.
  [[noreturn]] void fail(std::size_t place, const std::string& found, const std::string& expected,
                         const std::string& hint) const;

 private:
  char32_t next_of_several();

  const char* begin_;
  const char* at_;
  const char* end_;
  const std::string& path_;
  std::size_t before_;
};

// The character in UTF-8.
std::string utf8_of(char32_t character);
// White space but the line end: blanks, tabs and what Unicode calls so (White_Space).
bool is_blank_character(char32_t character);

}  // namespace hetsgd
