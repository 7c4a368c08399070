// A text as numbers: characters, bytes or words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/load_options.hpp"
#include "data/text/text_rules.hpp"

namespace hetsgd {

// The rows of a text, by the places of their inputs (TokenRows).
struct TextPlaces {
  std::vector<std::uint64_t> begin;
  std::vector<std::uint32_t> length;
  std::vector<bool> held_out;  // rows that are not learnt from; empty: none
};

// A text whose tokens are known, but not their kinds.
//
// Life : make it, cut rows, then number() the tokens. The kinds of words are chosen by the rows
//        that are learnt from.
class TokenText {
 public:
  // Reads `text`; `path` names it. Throws Error(data) naming line and byte offset for what the kind
  // of tokens does not allow.
  static TokenText read(std::string_view text, const std::string& path, const TextRules& rules);

  std::uint64_t size() const { return symbol_.size(); }
  bool is_line_end(std::uint64_t place) const { return symbol_[place] == line_end_; }
  // Puts a line end before the first token, and behind the last one unless it is a line end.
  void frame_by_line_ends();

  struct Numbered {
    std::vector<std::uint16_t> token;
    std::vector<std::string> names;    // by kind
    std::vector<std::uint32_t> bytes;  // [rows] of the text under the row's targets
  };
  // Numbers the tokens by `known`, the names of the training data's kinds, or by kinds of their own
  // if it is empty. Counts unknown words. Throws Error(data) for a token that `known` lacks, for
  // names of another kind of tokens, and for too many kinds.
  Numbered number(const TextPlaces& rows, const std::vector<std::string>& known,
                  std::uint64_t min_frequency, TextCounts& counts) &&;

  std::uint64_t returns() const { return returns_; }

 private:
  TokenText(const std::string& path, const TextRules& rules) : path_(path), rules_(rules) {}
  void read_bytes(std::string_view text);
  void read_characters(std::string_view text);
  void read_words(std::string_view text);

  std::string spelling_of(std::uint32_t symbol) const;
  std::vector<std::string> kinds(const TextPlaces& rows, std::uint64_t min_frequency) const;
  std::vector<std::string> kinds_of_words(const TextPlaces& rows,
                                          std::uint64_t min_frequency) const;
  // [symbols] the number of each symbol that occurs.
  std::vector<std::uint32_t> numbers_by(const std::vector<std::string>& names) const;
  void check_kinds(const std::vector<std::string>& known) const;
  [[noreturn]] void fail_unknown(std::uint32_t symbol, std::size_t kinds) const;
  std::vector<std::uint32_t> bytes_of(const TextPlaces& rows, const Numbered& numbered) const;

  std::string path_;
  TextRules rules_;
  // The tokens as symbols: code points, bytes, or places in words_.
  std::vector<std::uint32_t> symbol_;
  std::vector<bool> occurs_;          // [symbols]
  std::vector<std::string> words_;    // by symbol; empty: the tokens are no words
  std::vector<std::uint32_t> width_;  // words: bytes of each token with the blanks before it
  std::uint32_t line_end_ = '\n';     // the symbol
  std::uint64_t returns_ = 0;
};

}  // namespace hetsgd
