// Text in pieces of whole lines, which threads read side by side.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/line_parser.hpp"

namespace hetsgd {

// The text in pieces of whole lines. The last few bytes are copied to `tail`, so that every piece
// ends in a newline with kNumberPadding readable bytes after it.
std::vector<std::string_view> split_lines(std::string_view text, std::string& tail);

// Throws Error(data) with file:line:column, for a complaint in a piece that begins with line
// `first_line`.
[[noreturn]] void fail_in_line(const LineError& error, const char* piece, std::uint64_t first_line,
                               const std::string& path);

// Gives a parser all lines of a piece. A complaint becomes an Error, as above. If several threads
// parse pieces as parallel_tasks(), the error is that of the first complaint in the text.
template <class Parser>
void parse_lines(std::string_view piece, std::uint64_t first_line, const std::string& path,
                 Parser& parser) {
  const char* const end = piece.data() + piece.size();
  try {
    for (const char* p = piece.data(); p < end;) p = parser.parse_line(p);
  } catch (const LineError& error) {
    fail_in_line(error, piece.data(), first_line, path);
  }
}

// The text up to the first newline, without it.
inline std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace hetsgd
