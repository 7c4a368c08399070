#include "data/text/read_text.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "data/select.hpp"
#include "data/text/token_text.hpp"

namespace hetsgd {

namespace {

constexpr std::uint64_t kLeastWordFrequency = 1;

void add_row(std::uint64_t begin, std::uint64_t length, TextPlaces& rows) {
  rows.begin.push_back(begin);
  rows.length.push_back(static_cast<std::uint32_t>(length));
}

TextPlaces cut_blocks(std::uint64_t tokens, std::uint32_t block, const std::string& path) {
  if (tokens <= block) {
    refuse(path, fmt::format("a text of {} tokens", tokens),
           fmt::format("at least {}, one more than --block", std::uint64_t{block} + 1),
           "use a smaller --block, or --rows lines", ExitCode::data);
  }
  TextPlaces rows;
  for (std::uint64_t row = 0; row < (tokens - 1) / block; ++row) add_row(row * block, block, rows);
  return rows;
}

// A line of `length` tokens, which begins at `begin`, and its end.
void cut_line(std::uint64_t begin, std::uint64_t length, std::uint32_t block, TextPlaces& rows) {
  for (std::uint64_t done = 0; done < length + 1; done += block) {
    add_row(begin - 1 + done, std::min<std::uint64_t>(block, length + 1 - done), rows);
  }
}

TextPlaces cut_lines(const TokenText& text, const TextRules& rules, const std::string& path,
                     TextCounts& counts) {
  TextPlaces rows;
  std::uint64_t line = 1, begin = 1;
  for (std::uint64_t place = 1; place < text.size(); ++place) {
    if (!text.is_line_end(place)) continue;
    const std::uint64_t length = place - begin;
    if (length == 0) {
      ++counts.empty_lines;
    } else if (length + 1 > rules.block && rules.long_lines == LongLines::refuse) {
      refuse(fmt::format("{}:{}", path, line),
             fmt::format("a line of {} tokens with its end", length + 1),
             fmt::format("at most --block {}", rules.block),
             "--long-lines split makes several rows of it", ExitCode::data);
    } else {
      counts.split_lines += length + 1 > rules.block;
      cut_line(begin, length, rules.block, rows);
    }
    ++line;
    begin = place + 1;
  }
  if (rows.begin.empty()) {
    refuse(path, "empty lines only", "lines with text", "", ExitCode::data);
  }
  return rows;
}

}  // namespace

ParsedData read_text(std::string_view bytes, const std::string& path, const LoadOptions& options) {
  if (bytes.empty()) refuse(path, "an empty file", "a text", "", ExitCode::data);
  const TextRules& rules = options.text;
  ParsedData parsed;
  parsed.report.format = DataFormat::text;
  TextCounts& counts = parsed.report.text;
  TokenText text = TokenText::read(bytes, path, rules);
  counts.returns = text.returns();
  const bool lines = rules.rows == TextRows::lines;
  if (lines) text.frame_by_line_ends();
  TextPlaces rows =
      lines ? cut_lines(text, rules, path, counts) : cut_blocks(text.size(), rules.block, path);
  if (rows.begin.size() > std::numeric_limits<Index>::max()) {
    refuse(path, fmt::format("{} rows", rows.begin.size()), "less than 2^32",
           "use a larger --block", ExitCode::data);
  }
  rows.held_out = held_out_rows(rows.begin.size(), options.held_out);
  // Training data without tokens have other names; fit_to_training() refuses their test text.
  const bool known = !options.task || *options.task == Task::tokens;
  TokenText::Numbered numbered = std::move(text).number(
      rows, known ? options.label_names : std::vector<std::string>(),
      options.vocabulary.min_frequency.value_or(kLeastWordFrequency), counts);
  DatasetBuilder data;
  data.task = Task::tokens;
  data.label_count = static_cast<Index>(numbered.names.size());
  data.targets.begin.resize(rows.begin.size() + 1);
  data.tokens = {.vocabulary = data.label_count,
                 .room = lines ? 0 : rules.block - 1,
                 .token = std::move(numbered.token),
                 .begin = std::move(rows.begin),
                 .length = std::move(rows.length),
                 .bytes = std::move(numbered.bytes)};
  parsed.report.label_names = std::move(numbered.names);
  parsed.data = std::move(data).build();
  return parsed;
}

}  // namespace hetsgd
