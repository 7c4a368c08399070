#include "data/criteo.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/line_parser.hpp"
#include "data/number.hpp"
#include "data/parallel.hpp"
#include "data/source.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kColumns = 1 + kCriteoDense + kCriteoFields;
constexpr std::uint64_t kLargestNumber =
    999'999'999'999'999;  // parse_unsigned() is exact up to here

// Eight equal bytes.
constexpr std::uint64_t all_bytes(std::uint8_t byte) { return byte * 0x0101010101010101ULL; }

// Reads 8 hexadecimal digits, the first one highest. Returns false if a byte is no digit.
bool parse_hexadecimal(const char* p, std::uint32_t& value) {
  const std::uint64_t word = load_text(p);
  constexpr std::uint64_t kTop = all_bytes(0x80);
  // Tests for each byte below 0x80 whether it is at least `low`, since the sum then reaches the top
  // bit.
  const auto at_least = [](std::uint64_t bytes, char low) {
    return bytes + all_bytes(static_cast<std::uint8_t>(0x80 - low));
  };
  const std::uint64_t lower = word | all_bytes(0x20);
  const std::uint64_t digit = at_least(word, '0') & ~at_least(word, '9' + 1);
  const std::uint64_t letter = at_least(lower, 'a') & ~at_least(lower, 'f' + 1);
  if ((word & kTop) != 0 || ((digit | letter) & kTop) != kTop) return false;
  // A letter is 9 above the value of its low half. Then digits join to bytes, words, the value.
  std::uint64_t v = (word & all_bytes(0x0F)) + 9 * (word >> 6 & all_bytes(1));
  v = (v << 4 | v >> 8) & 0x00FF00FF00FF00FFULL;
  v = (v << 8 | v >> 16) & 0x0000FFFF0000FFFFULL;
  value = static_cast<std::uint32_t>(v << 16 | v >> 32);
  return true;
}

// Features of small numbers, which nearly all numbers are.
const std::array<float, 4096>& small_features() {
  static const std::array<float, 4096> table = [] {
    std::array<float, 4096> values{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = dense_feature(static_cast<std::int64_t>(i));
    }
    return values;
  }();
  return table;
}

std::string column_name(std::size_t column) {
  if (column == 0) return "the label";
  if (column <= kCriteoDense) return fmt::format("I{}", column);
  return fmt::format("C{}", column - kCriteoDense);
}

// Text for a message up to the next tab or newline.
std::string quoted_cell(const char* p) {
  const char* end = p;
  while (*end != '\t' && !ends_line(end)) ++end;
  return quoted({p, static_cast<std::size_t>(end - p)});
}

// Parses lines into rows of the arrays, from `row` on.
class CriteoParser {
 public:
  CriteoParser(RawClicks& clicks, std::size_t row)
      : clicks_(clicks), row_(row), small_(small_features()) {}

  // Parses one line and returns the start of the next. The line ends in a newline with
  // kNumberPadding readable bytes after it. Throws LineError.
  const char* parse_line(const char* p) {
    const char* const line = p;
    if ((*p != '0' && *p != '1') || p[1] != '\t') fail(p, line, 0);
    clicks_.positive[row_] = *p == '1' ? 1 : 0;
    p += 2;
    float* const dense = clicks_.dense.data() + row_ * kCriteoDense;
    for (std::size_t k = 0; k < kCriteoDense; ++k) p = parse_number(p, line, k, dense[k]);
    std::uint32_t* const value = clicks_.value.data() + row_ * kCriteoFields;
    std::uint32_t no_value = 0;
    for (std::size_t f = 0; f < kCriteoFields; ++f) {
      const bool last = f + 1 == kCriteoFields;
      const auto ends = [last](const char* at) { return last ? ends_line(at) : *at == '\t'; };
      if (ends(p)) {
        no_value |= std::uint32_t{1} << f;
      } else {
        if (!parse_hexadecimal(p, value[f]) || !ends(p + 8)) fail(p, line, 1 + kCriteoDense + f);
        p += 8;
      }
      if (!last) ++p;
    }
    clicks_.no_value[row_++] = no_value;
    return p + (*p == '\r' ? 2 : 1);
  }

 private:
  const char* parse_number(const char* p, const char* line, std::size_t k, float& feature) {
    if (*p == '\t') return p + 1;  // no number: 0, as the array is
    const bool negative = *p == '-';
    std::uint64_t number = 0;
    const char* const digits = p + negative;
    const char* const end = parse_unsigned(digits, number);
    if (end == digits || *end != '\t' || number > kLargestNumber) fail(p, line, 1 + k);
    if (!negative) {
      feature = number < small_.size() ? small_[number]
                                       : dense_feature(static_cast<std::int64_t>(number));
    }
    return end + 1;
  }

  // Throws for the column that begins at `p`, or for too few or too many columns.
  [[noreturn]] void fail(const char* p, const char* line, std::size_t column) const {
    const char* end = line;
    while (!ends_line(end)) ++end;
    const auto columns = static_cast<std::size_t>(std::count(line, end, '\t')) + 1;
    if (columns != kColumns) {
      throw LineError{columns < kColumns ? end : p,
                      fmt::format("found {} columns, expected {}", columns, kColumns),
                      columns == kColumns - 1
                          ? "without labels, as Kaggle's test.txt? --test tail:1/7 holds out rows "
                            "that have some"
                          : "a line of Criteo's text is label, I1..I13, C1..C26, with tabs between "
                            "them"};
    }
    const char* const expected = column == 0 ? "0 or 1"
                                 : column <= kCriteoDense
                                     ? "an integer of at most 15 digits, or nothing"
                                     : "8 hexadecimal digits, or nothing";
    throw LineError{
        p, fmt::format("{}: found {}, expected {}", column_name(column), quoted_cell(p), expected)};
  }

  RawClicks& clicks_;
  std::size_t row_;
  const std::array<float, 4096>& small_;
};

// The row number (from 0) of each piece's first line; the last element is the number of rows.
std::vector<std::size_t> first_rows(const std::vector<std::string_view>& pieces,
                                    std::optional<int> threads) {
  std::vector<std::size_t> rows(pieces.size() + 1);
  parallel_tasks(threads, pieces.size(), [&](std::size_t i) {
    rows[i + 1] = static_cast<std::size_t>(std::count(pieces[i].begin(), pieces[i].end(), '\n'));
  });
  std::partial_sum(rows.begin(), rows.end(), rows.begin());
  return rows;
}

}  // namespace

bool is_criteo_text(std::string_view text) {
  const std::string_view line = first_line(text);
  const auto columns = static_cast<std::size_t>(std::ranges::count(line, '\t')) + 1;
  const bool unlabelled = columns == kColumns - 1 && line.find(':') == std::string_view::npos;
  return columns == kColumns || unlabelled;
}

RawClicks parse_criteo(std::string_view text, const std::string& path, std::optional<int> threads) {
  // Empty lines at the end are no rows.
  text = text.substr(0, text.find_last_not_of("\r\n") + 1);
  std::string tail;
  const std::vector<std::string_view> pieces = split_lines(text, tail);
  const std::vector<std::size_t> first = first_rows(pieces, threads);
  const std::size_t rows = first.back();
  if (rows == 0) {
    refuse(path, "an empty file", "lines of 40 columns with tabs between them", "", ExitCode::data);
  }
  if (rows > std::numeric_limits<std::uint32_t>::max()) {
    throw data_error("{}: found {} rows, expected less than 2^32", path, rows);
  }
  constexpr double kRowBytes = 4.0 * (kCriteoDense + kCriteoFields + 1) + 1;
  require_memory(kRowBytes * static_cast<double>(rows), path, "the data set");
  RawClicks clicks(kCriteoDense, kCriteoFields);
  clicks.resize(rows);
  parallel_tasks(threads, pieces.size(), [&](std::size_t i) {
    CriteoParser parser(clicks, first[i]);
    parse_lines(pieces[i], first[i] + 1, path, parser);
  });
  return clicks;
}

void append_criteo_line(const RawClick& click, std::string& text) {
  std::array<char, 24> digits;
  text += click.positive ? '1' : '0';
  for (std::size_t k = 0; k < kCriteoDense; ++k) {
    text += '\t';
    if ((click.no_number >> k & 1) != 0) continue;
    const auto written =
        std::to_chars(digits.data(), digits.data() + digits.size(), click.number[k]);
    text.append(digits.data(), written.ptr);
  }
  for (std::size_t f = 0; f < kCriteoFields; ++f) {
    text += '\t';
    if ((click.no_value >> f & 1) != 0) continue;
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[click.value[f] >> shift & 15];
  }
  text += '\n';
}

}  // namespace hetsgd
