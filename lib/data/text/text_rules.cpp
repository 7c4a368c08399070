#include "data/text/text_rules.hpp"

#include <fmt/format.h>

namespace hetsgd {

void declare_text(OptionSet& set, TextRules& rules) {
  constexpr double kLongestBlock = 1 << 20;
  set.add_choice("tokens", rules.tokens,
                 {{"characters", TokenKind::characters},
                  {"bytes", TokenKind::bytes},
                  {"words", TokenKind::words}},
                 "Tokens of a text. characters are Unicode code points. words are runs of letters, "
                 "digits, ' and -, and every other character but blanks by itself.")
      .needs("format", {"text"});
  set.add_choice("rows", rules.rows, {{"blocks", TextRows::blocks}, {"lines", TextRows::lines}},
                 "Rows of a text. blocks cuts it into rows of --block tokens. lines makes each "
                 "line a row.")
      .needs("format", {"text"});
  set.add("block", rules.block,
          "Tokens of a row of text. With --rows lines it is the limit for long lines. The default "
          "is 256, or the longest row of the model if that is shorter.")
      .unit("tokens")
      .range(1, kLongestBlock)
      .needs("format", {"text"});
  set.add("vocabulary_size", rules.vocabulary_size,
          "Largest number of kinds of words. The most frequent words of the training rows are "
          "kinds of their own. Unknown words and line ends are two more kinds, which count.")
      .range(3, 65536)
      .needs("format", {"text"})
      .needs("tokens", {"words"});
  set.add_choice("long_lines", rules.long_lines,
                 {{"split", LongLines::split}, {"refuse", LongLines::refuse}},
                 "What happens to a line of more than --block tokens. split makes several rows of "
                 "it. refuse ends the program with an error.")
      .needs("format", {"text"})
      .needs("rows", {"lines"});
}

std::string key_of(const TextRules& rules) {
  return fmt::format("tokens {} rows {} block {} vocabulary {} long lines {}",
                     static_cast<int>(rules.tokens), static_cast<int>(rules.rows), rules.block,
                     rules.vocabulary_size, static_cast<int>(rules.long_lines));
}

std::vector<std::string> remarks_on(const TextCounts& counts) {
  std::vector<std::string> remarks;
  if (counts.empty_lines > 0) {
    remarks.push_back(fmt::format("{} empty lines are no rows", counts.empty_lines));
  }
  if (counts.split_lines > 0) {
    remarks.push_back(fmt::format("{} lines are longer than --block and became several rows",
                                  counts.split_lines));
  }
  if (counts.unknown > 0) {
    remarks.push_back(
        fmt::format("{:.2f} % of the words are unknown",
                    100 * static_cast<double>(counts.unknown) / static_cast<double>(counts.words)));
  }
  if (counts.returns > 0) {
    remarks.push_back(
        fmt::format("{} carriage returns before line ends were dropped", counts.returns));
  }
  return remarks;
}

}  // namespace hetsgd
