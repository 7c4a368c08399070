// How a text becomes tokens and rows: the options of --format text, and the counts of what reading
// has changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/options.hpp"

namespace hetsgd {

enum class TokenKind {
  characters,  // Unicode code points
  bytes,
  words,
};
enum class TextRows {
  blocks,  // stretches of TextRules::block tokens, whatever lines there are
  lines,   // a row for each line
};
enum class LongLines { split, refuse };

struct TextRules {
  TokenKind tokens = TokenKind::characters;
  TextRows rows = TextRows::blocks;
  std::uint32_t block = 256;             // inputs of a row; lines: of the longest
  std::uint32_t vocabulary_size = 8192;  // words: kinds, with the two that are no words
  LongLines long_lines = LongLines::split;

  bool operator==(const TextRules&) const = default;
};

// Declares --tokens, --rows, --block, --vocabulary-size and --long-lines. The set must have
// --format.
void declare_text(OptionSet& set, TextRules& rules);

// Every rule and its value, for keys of caches.
std::string key_of(const TextRules& rules);

// Counts of the things that reading a text found and changed without an error.
struct TextCounts {
  std::uint64_t empty_lines = 0;  // no rows with --rows lines
  std::uint64_t split_lines = 0;  // longer than a row
  std::uint64_t words = 0;        // words and other tokens of --tokens words
  std::uint64_t unknown = 0;      // of these, tokens outside the vocabulary
  std::uint64_t returns = 0;      // carriage returns before line ends, which are dropped

  bool operator==(const TextCounts&) const = default;
};

// A sentence for each count that is not 0.
std::vector<std::string> remarks_on(const TextCounts& counts);

}  // namespace hetsgd
