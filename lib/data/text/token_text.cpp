#include "data/text/token_text.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/text.hpp"
#include "data/huge_pages.hpp"
#include "data/labels.hpp"
#include "data/source.hpp"
#include "data/text/characters.hpp"

namespace hetsgd {

namespace {

constexpr std::uint32_t kByteKinds = 256;
// Words: the first two kinds, and the symbol of a line end.
constexpr const char* kUnknownWord = "<unknown>";
constexpr std::uint32_t kUnknown = 0, kLineEndWord = 0;
constexpr std::uint32_t kNoNumber = 0xFFFFFFFFU;

bool is_word_character(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '\'' ||
         c == '-' || (c >= 0x80 && !is_blank_character(c));
}

}  // namespace

TokenText TokenText::read(std::string_view text, const std::string& path, const TextRules& rules) {
  // Symbols, numbers, and as many bytes of words.
  const double of_byte = rules.tokens == TokenKind::words ? 8 : 6;
  require_memory(of_byte * static_cast<double>(text.size()), path, "the tokens");
  if (rules.tokens != TokenKind::bytes) {
    refuse_other_kinds(text, path, "text in UTF-8", TextUse::any);
  }
  TokenText tokens(path, rules);
  switch (rules.tokens) {
    case TokenKind::bytes:
      tokens.read_bytes(text);
      break;
    case TokenKind::characters:
      tokens.read_characters(text);
      break;
    case TokenKind::words:
      tokens.read_words(text);
      break;
  }
  return tokens;
}

void TokenText::read_bytes(std::string_view text) {
  occurs_.assign(kByteKinds, true);
  resize_on_huge_pages(symbol_, text.size());
  std::ranges::transform(text, symbol_.begin(),
                         [](char c) { return static_cast<unsigned char>(c); });
}

void TokenText::read_characters(std::string_view text) {
  const std::string_view content = behind_mark(text);
  CharacterReader reader(content, path_, text.size() - content.size());
  std::vector<std::uint8_t> seen(kByteKinds);         // grows to the largest character
  resize_on_huge_pages(symbol_, content.size() + 2);  // room for line ends around the text
  std::size_t count = 0;
  while (!reader.at_end()) {
    const char32_t character = reader.next();
    if (character == '\r' && reader.before_line_end()) {
      ++returns_;
      continue;
    }
    if (character >= seen.size()) seen.resize(std::size_t{character} + 1);
    seen[character] = 1;
    symbol_[count++] = character;
  }
  symbol_.resize(count);
  occurs_.assign(seen.begin(), seen.end());
}

void TokenText::read_words(std::string_view text) {
  const std::string_view content = behind_mark(text);
  CharacterReader reader(content, path_, text.size() - content.size());
  std::unordered_map<std::string_view, std::uint32_t> symbols = {{"\n", kLineEndWord}};
  words_ = {"\n"};
  line_end_ = kLineEndWord;
  std::size_t covered = 0;  // end of the last token
  const auto add = [&](std::size_t begin, std::size_t end) {
    const std::string_view word = content.substr(begin, end - begin);
    const auto [at, is_new] = symbols.emplace(word, static_cast<std::uint32_t>(words_.size()));
    if (is_new) words_.emplace_back(word);
    symbol_.push_back(at->second);
    width_.push_back(static_cast<std::uint32_t>(end - covered));
    covered = end;
  };
  constexpr std::size_t kNoWord = std::string_view::npos;
  std::size_t word = kNoWord;  // begin of the word that is being read
  while (!reader.at_end()) {
    const std::size_t begin = reader.place();
    const char32_t character = reader.next();
    if (is_word_character(character)) {
      if (word == kNoWord) word = begin;
      continue;
    }
    if (word != kNoWord) add(std::exchange(word, kNoWord), begin);
    if (character == 0) {
      reader.fail(begin, "a NUL", "text", "--tokens bytes reads any file");
    }
    if (character == '\r' && reader.before_line_end()) {
      ++returns_;
      ++covered;
    } else if (!is_blank_character(character)) {
      add(begin, reader.place());
    }
  }
  if (word != kNoWord) add(word, content.size());
  occurs_.assign(words_.size(), true);
}

void TokenText::frame_by_line_ends() {
  occurs_[line_end_] = true;
  const bool ended = !symbol_.empty() && symbol_.back() == line_end_;
  symbol_.insert(symbol_.begin(), line_end_);
  if (!ended) symbol_.push_back(line_end_);
  if (rules_.tokens != TokenKind::words) return;
  width_.insert(width_.begin(), 1);
  if (!ended) width_.push_back(1);
}

std::string TokenText::spelling_of(std::uint32_t symbol) const {
  switch (rules_.tokens) {
    case TokenKind::bytes:
      return std::to_string(symbol);
    case TokenKind::characters:
      return utf8_of(symbol);
    case TokenKind::words:
      return words_[symbol];
  }
  HETSGD_CHECK(false);
}

// The commonest words of the rows that are learnt from. A row counts by its inputs, so that every
// token of a text counts once.
std::vector<std::string> TokenText::kinds_of_words(const TextPlaces& rows,
                                                   std::uint64_t min_frequency) const {
  std::vector<std::uint64_t> count(words_.size());
  if (rows.held_out.empty()) {
    for (const std::uint32_t symbol : symbol_) ++count[symbol];
  }
  for (std::size_t row = 0; row < rows.held_out.size(); ++row) {
    if (rows.held_out[row]) continue;
    for (std::uint64_t i = 0; i < rows.length[row]; ++i) ++count[symbol_[rows.begin[row] + i]];
  }
  std::vector<std::uint32_t> order;
  for (std::uint32_t symbol = 0; symbol < words_.size(); ++symbol) {
    const bool is_word = symbol != line_end_ && count[symbol] > 0;
    if (is_word && count[symbol] >= min_frequency) order.push_back(symbol);
  }
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return count[a] != count[b] ? count[a] > count[b] : words_[a] < words_[b];
  });
  std::vector<std::string> names = {kUnknownWord, "\n"};
  const std::size_t most = rules_.vocabulary_size - names.size();
  if (order.size() > most) order.resize(most);
  for (const std::uint32_t symbol : order) names.push_back(words_[symbol]);
  return names;
}

std::vector<std::string> TokenText::kinds(const TextPlaces& rows,
                                          std::uint64_t min_frequency) const {
  if (rules_.tokens == TokenKind::words) return kinds_of_words(rows, min_frequency);
  std::vector<std::string> names;
  for (std::uint32_t symbol = 0; symbol < occurs_.size(); ++symbol) {
    if (occurs_[symbol]) names.push_back(spelling_of(symbol));
  }
  if (names.size() > kMostTokenKinds) {
    refuse(path_, fmt::format("{} kinds of characters", names.size()),
           fmt::format("at most {}", kMostTokenKinds), "--tokens bytes has 256 kinds",
           ExitCode::data);
  }
  return names;
}

void TokenText::check_kinds(const std::vector<std::string>& known) const {
  const bool words = known.size() >= 2 && known[0] == kUnknownWord;
  const bool bytes = known == numbered_labels(kByteKinds);
  if ((rules_.tokens == TokenKind::words) == words &&
      (rules_.tokens == TokenKind::bytes) == bytes) {
    return;
  }
  refuse(path_, "another kind of tokens", "that of the training data",
         "read both with the same --tokens", ExitCode::data);
}

void TokenText::fail_unknown(std::uint32_t symbol, std::size_t kinds) const {
  const auto at = std::ranges::find(symbol_, symbol);
  const auto line = std::count(symbol_.begin(), at, line_end_) + 1;
  refuse(fmt::format("{}: the character of number {}, in line {}", path_, at - symbol_.begin() + 1,
                     line),
         quote(spelling_of(symbol)), fmt::format("one of the {} kinds of the training data", kinds),
         "--tokens bytes has a kind for every file, and --test tail:1/10 holds out a part of the "
         "training text",
         ExitCode::data);
}

std::vector<std::uint32_t> TokenText::numbers_by(const std::vector<std::string>& names) const {
  std::unordered_map<std::string_view, std::uint32_t> number;
  for (const std::string& name : names) {
    number.emplace(name, static_cast<std::uint32_t>(number.size()));
  }
  std::vector<std::uint32_t> numbers(occurs_.size(), kNoNumber);
  for (std::uint32_t symbol = 0; symbol < occurs_.size(); ++symbol) {
    if (!occurs_[symbol]) continue;
    const auto at = number.find(spelling_of(symbol));
    if (at != number.end()) {
      numbers[symbol] = at->second;
    } else if (rules_.tokens == TokenKind::words) {
      numbers[symbol] = kUnknown;
    } else {
      fail_unknown(symbol, names.size());
    }
  }
  return numbers;
}

std::vector<std::uint32_t> TokenText::bytes_of(const TextPlaces& rows,
                                               const Numbered& numbered) const {
  std::vector<std::uint32_t> of_kind(numbered.names.size(), 1);
  if (rules_.tokens == TokenKind::characters) {
    for (std::size_t kind = 0; kind < of_kind.size(); ++kind) {
      of_kind[kind] = static_cast<std::uint32_t>(numbered.names[kind].size());
    }
  }
  const bool words = rules_.tokens == TokenKind::words;
  std::vector<std::uint32_t> bytes(rows.begin.size());
  for (std::size_t row = 0; row < bytes.size(); ++row) {
    const std::uint64_t first = rows.begin[row] + 1;
    const std::uint64_t end = first + rows.length[row];
    std::uint32_t sum = 0;
    for (std::uint64_t place = first; place < end; ++place) {
      sum += words ? width_[place] : of_kind[numbered.token[place]];
    }
    bytes[row] = sum;
  }
  return bytes;
}

TokenText::Numbered TokenText::number(const TextPlaces& rows, const std::vector<std::string>& known,
                                      std::uint64_t min_frequency, TextCounts& counts) && {
  Numbered result;
  if (known.empty()) {
    result.names = kinds(rows, min_frequency);
  } else {
    check_kinds(known);
    result.names = known;
  }
  const std::vector<std::uint32_t> numbers = numbers_by(result.names);
  resize_on_huge_pages(result.token, symbol_.size());
  std::ranges::transform(symbol_, result.token.begin(), [&](std::uint32_t symbol) {
    return static_cast<std::uint16_t>(numbers[symbol]);
  });
  if (rules_.tokens == TokenKind::words) {
    counts.words = result.token.size();
    counts.unknown = static_cast<std::uint64_t>(std::ranges::count(result.token, kUnknown));
  }
  result.bytes = bytes_of(rows, result);
  return result;
}

}  // namespace hetsgd
