#include "data/line_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "core/error.hpp"

namespace hetsgd {
namespace {

// The digits at `p`, however many, because a number may be too long for any type.
std::string_view digits_at(const char* p) {
  const char* end = p;
  while (*end >= '0' && *end <= '9') ++end;
  return {p, static_cast<std::size_t>(end - p)};
}

bool ends_entry(char c) { return is_blank(c) || c == '\n' || c == '#'; }

const char* end_of_line(const char* p) {
  while (*p != '\n') ++p;
  return p;
}

const char* skip_blanks(const char* p) {
  while (is_blank(*p)) ++p;
  return p;
}

const char* skip_entry(const char* p) {
  while (!ends_entry(*p)) ++p;
  return p;
}

// The k-th (from 0) feature entry of a line.
const char* feature_entry(const char* line, std::uint64_t k) {
  const char* p = skip_blanks(skip_entry(line));
  for (; k > 0; --k) p = skip_blanks(skip_entry(p));
  return p;
}

// The k-th (from 0) label of a line.
const char* label_entry(const char* line, std::uint64_t k) {
  for (; k > 0; ++line) k -= *line == ',';
  return line;
}

// The end of a whole number in floating point at `digits`, as "1.0" and "1.00e+00" (NumPy writes
// so), whose value `number` becomes; null if there is none.
const char* parse_whole(const char* digits, std::uint64_t& number) {
  double value = -1;
  const char* const end = std::from_chars(digits, skip_entry(digits), value).ptr;
  if (value < 0 || value >= 0x1p53 || value != std::floor(value)) return nullptr;
  number = static_cast<std::uint64_t>(value);
  return end;
}

// The place in the row of the later one of two equal entries. `entries` holds (number, place in the
// row).
std::uint64_t later_duplicate(std::vector<std::pair<Index, std::uint64_t>> entries) {
  std::sort(entries.begin(), entries.end());
  const auto twin =
      std::adjacent_find(entries.begin(), entries.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  return std::next(twin)->second;
}

}  // namespace

bool is_row(const char* line, bool xc) {
  if (*skip_blanks(line) == '#') return false;
  return xc || !ends_line(line);
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 40)) {
    if (c >= 0x20 && c < 0x7F) {
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return result + (text.size() > 40 ? "...'" : "'");
}

std::string quoted_token(const char* p) {
  const char* end = p;
  while (!is_blank(*end) && *end != '\n') ++end;
  return end == p ? "nothing" : quoted({p, static_cast<std::size_t>(end - p)});
}

void LineParser::fail_feature(const char* token, const char* after_index) const {
  if (*token == '-') {
    throw LineError{token,
                    fmt::format("found a negative feature index in {}, expected indices from {}",
                                quoted_token(token), rules_.xc ? "0" : "0 or 1")};
  }
  if (after_index == token) {
    throw LineError{
        token, fmt::format("expected 'index:value', found {}", quoted_token(token)),
        std::strncmp(token, "qid:", 4) == 0 ? "ranking data (qid) is not supported" : ""};
  }
  throw LineError{after_index,
                  fmt::format("expected ':' after the feature index, found {}",
                              ends_entry(*after_index) ? "the end of " + quoted_token(token)
                                                       : quoted_token(after_index)),
                  "an entry is 'index:value', without blanks inside"};
}

void LineParser::fail_value(const char* token, const ParsedNumber& number) const {
  const char* value = token;
  while (*value != ':') ++value;
  ++value;
  switch (number.status) {
    case NumberStatus::not_finite:
      throw LineError{value, fmt::format("feature value {} is not finite", quoted_token(value)),
                      "remove the entry or replace its value"};
    case NumberStatus::out_of_range:
      throw LineError{value, fmt::format("feature value {} is outside the range of a 32-bit float",
                                         quoted_token(value))};
    default:
      throw LineError{
          value, fmt::format("expected a number after 'index:', found {}", quoted_token(value))};
  }
}

void LineParser::fail_feature_range(const char* token, std::uint64_t index) const {
  const std::string_view digits = digits_at(token);
  if (!rules_.xc) {
    throw LineError{token, fmt::format("feature index {} is too large: the largest possible is {}",
                                       digits, rules_.features - 1)};
  }
  throw LineError{
      token,
      fmt::format("feature index {} is out of range: the header promises {} features (0 to {})",
                  digits, rules_.features, rules_.features - 1),
      index == rules_.features ? "indices in XC files count from 0"
                               : "correct the header or the entry"};
}

void LineParser::fail_index_zero(const char* line, Index index) const {
  const char* entry = feature_entry(line, 0);
  std::uint64_t found = 1;
  while (parse_unsigned(entry, found), found != index) entry = skip_blanks(skip_entry(entry));
  throw LineError{
      entry,
      fmt::format("feature index {} in {}, where indices count from 1", index, quoted_token(entry)),
      "with --index-base 0 they count from 0"};
}

// `after` is where the label's digits end; if there are none, it is `token` or the byte after its
// sign.
void LineParser::fail_label(const char* token, const char* after, std::uint64_t number) const {
  const char* const digits = token + (*token == '-' || *token == '+');
  if (std::strchr(quoted_token(token).c_str(), ':') != nullptr) {
    throw LineError{token, fmt::format("expected a label, found {}", quoted_token(token)),
                    rules_.xc ? "a line without labels begins with a space"
                              : "a line without labels begins with a space; weights of rows "
                                "(label:weight) are not supported"};
  }
  if (after == digits || (rules_.xc && *after != ',' && !ends_entry(*after))) {
    throw LineError{token, fmt::format("expected a label, found {}", quoted_token(token)),
                    "labels are integers, separated by commas without blanks"};
  }
  if (*after != ',' && !ends_entry(*after)) {
    throw LineError{token, fmt::format("expected an integer label, found {}", quoted_token(token)),
                    "real-valued targets (regression) are not supported"};
  }
  if (!rules_.xc) {
    throw LineError{token, fmt::format("label {} is too large: the largest possible is {}",
                                       digits_at(digits), rules_.labels - 1)};
  }
  if (*token == '-') {
    throw LineError{token, fmt::format("found a negative label in {}, expected labels from 0",
                                       quoted_token(token))};
  }
  throw LineError{token,
                  fmt::format("label {} is out of range: the header promises {} labels (0 to {})",
                              digits_at(digits), rules_.labels, rules_.labels - 1),
                  number == rules_.labels ? "labels in XC files count from 0"
                                          : "correct the header or the label"};
}

// A label is an integer; libSVM writers also put it as "+1", "1.0" or "1.00e+00".
const char* LineParser::parse_label(const char* p, std::uint32_t& label) const {
  const char* const token = p;
  const bool negative = *p == '-';
  p += negative || *p == '+';
  std::uint64_t number = 0;
  const char* const digits = p;
  p = parse_unsigned(p, number);
  if (p > digits && (*p == '.' || *p == 'e' || *p == 'E') && !rules_.xc) {
    if (const char* const end = parse_whole(digits, number)) p = end;
  }
  const bool well_formed = p > digits && (*p == ',' || ends_entry(*p));
  if (!well_formed || number >= rules_.labels || (negative && rules_.xc)) [[unlikely]] {
    fail_label(token, p, number);
  }
  label = negative ? 0U - static_cast<std::uint32_t>(number) : static_cast<std::uint32_t>(number);
  return p;
}

const char* LineParser::parse_labels(const char* p) {
  p = parse_label(p, sink_.label[labels_++]);
  while (*p == ',') {
    p = parse_label(p + 1, sink_.label[labels_++]);
  }
  return p;
}

const char* LineParser::parse_features(const char* p) {
  const std::uint64_t limit = rules_.features;
  Index* const indices = sink_.feature_index;
  float* const values = sink_.feature_value;
  std::uint64_t count = features_;
  std::int64_t previous = -1;
  sorted_ = true;
  const auto store = [&](std::uint64_t index, float value) {
    if (static_cast<std::int64_t>(index) <= previous) [[unlikely]]
      sorted_ = false;
    previous = static_cast<std::int64_t>(index);
    indices[count] = static_cast<Index>(index);
    values[count] = value;
    ++count;
  };
  while (true) {
    const char* const token = p;
    const std::uint64_t word = load_text(p);
    const unsigned digits = leading_digits(word);
    if (digits == 0) [[unlikely]] {  // more blanks, the end of the row, or a mistake
      p = skip_blanks(p);
      if (*p == '#') p = end_of_line(p);
      if (*p == '\n') break;
      if (p == token) fail_feature(token, p);
      continue;
    }
    if (digits <= 5) {  // `index:d ` lies within the word: done without another look at the text
      const std::uint64_t rest = word >> (8 * digits);
      const std::uint64_t digit = ((rest >> 8) & 0xFF) - '0';
      if ((rest & 0xFF00FF) == ((' ' << 16) | ':') && digit < 10) {
        const std::uint64_t index = digits_value(word, digits);
        if (index >= limit) [[unlikely]]
          fail_feature_range(token, index);
        store(index, static_cast<float>(digit));
        p += digits + 3;
        continue;
      }
    }
    std::uint64_t index = 0;
    p = parse_unsigned(p, index);
    if (*p != ':') [[unlikely]]
      fail_feature(token, p);
    if (index >= limit) [[unlikely]]
      fail_feature_range(token, index);
    float value = 0;
    const char* const number = p + 1;
    p = parse_plain_decimal(number, value);
    if (p == nullptr) [[unlikely]]
      p = parse_any_value(token, number, value);
    store(index, value);
    // A predicted branch: the next entry's address must not wait for this byte.
    if (*p == ' ') [[likely]] {
      ++p;
    } else if (!ends_entry(*p)) {
      fail_value(token, {p, value, NumberStatus::malformed});
    }
  }
  features_ = count;
  return p;
}

const char* LineParser::parse_any_value(const char* token, const char* p, float& value) const {
  const ParsedNumber number = parse_float(p);
  if (number.status != NumberStatus::ok) fail_value(token, number);
  value = number.value;
  return number.end;
}

const char* LineParser::parse_line(const char* line) {
  const char* p = skip_blanks(line);
  if (!is_row(line, rules_.xc)) return end_of_line(p) + 1;
  const std::uint64_t first_feature = features_;
  const std::uint64_t first_label = labels_;
  if (!is_blank(*line) && *line != '\n') p = parse_labels(line);
  p = parse_features(p);
  if (!sorted_) sort_features(line, first_feature);
  if (labels_ - first_label > 1) sort_labels(line, first_label);
  if (features_ > first_feature) {
    const Index smallest = sink_.feature_index[first_feature];
    if (smallest < rules_.first_feature) [[unlikely]]
      fail_index_zero(line, smallest);
    has_feature_zero_ |= smallest == 0;
    feature_limit_ =
        std::max(feature_limit_, std::uint64_t{sink_.feature_index[features_ - 1]} + 1);
  }
  sink_.feature_count[rows_] = features_;
  sink_.label_count[rows_] = labels_;
  ++rows_;
  return p + 1;
}

void LineParser::sort_features(const char* line, std::uint64_t first) {
  const std::uint64_t count = features_ - first;
  scratch_.clear();
  for (std::uint64_t k = first; k < features_; ++k) {
    scratch_.emplace_back(sink_.feature_index[k], sink_.feature_value[k]);
  }
  std::sort(scratch_.begin(), scratch_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto twin =
      std::adjacent_find(scratch_.begin(), scratch_.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twin != scratch_.end()) {
    std::vector<std::pair<Index, std::uint64_t>> entries;
    for (std::uint64_t k = 0; k < count; ++k)
      entries.emplace_back(sink_.feature_index[first + k], k);
    const std::uint64_t place = later_duplicate(std::move(entries));
    throw LineError{feature_entry(line, place),
                    fmt::format("feature index {} occurs twice in this row",
                                sink_.feature_index[first + place]),
                    "keep one entry, or add their values"};
  }
  for (std::uint64_t k = 0; k < count; ++k) {
    sink_.feature_index[first + k] = scratch_[k].first;
    sink_.feature_value[first + k] = scratch_[k].second;
  }
}

void LineParser::sort_labels(const char* line, std::uint64_t first) {
  Index* const begin = sink_.label + first;
  Index* const end = sink_.label + labels_;
  const auto before = [](Index a, Index b) {
    return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b);
  };
  if (std::adjacent_find(begin, end, [&](Index a, Index b) { return !before(a, b); }) == end)
    return;
  std::vector<std::pair<Index, std::uint64_t>> entries;
  for (std::uint64_t k = first; k < labels_; ++k) entries.emplace_back(sink_.label[k], k - first);
  std::sort(begin, end, before);
  if (std::adjacent_find(begin, end) == end) return;
  const std::uint64_t place = later_duplicate(entries);
  throw LineError{label_entry(line, place),
                  fmt::format("label {} occurs twice in this row",
                              static_cast<std::int32_t>(entries[place].first)),
                  "keep one of them"};
}

namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text, std::string& tail) {
  std::size_t cut = 0;
  if (text.size() > kNumberPadding) {
    const std::size_t newline = text.rfind('\n', text.size() - kNumberPadding - 1);
    cut = newline == std::string_view::npos ? 0 : newline + 1;
  }
  tail.assign(text.substr(cut));
  if (!tail.empty() && tail.back() != '\n') tail += '\n';
  const std::size_t tail_size = tail.size();
  tail.append(kNumberPadding, '\n');
  std::vector<std::string_view> pieces;
  for (std::size_t begin = 0; begin < cut;) {
    std::size_t end = std::min(cut, begin + kChunkBytes);
    end = text.find('\n', end - 1) + 1;  // text[cut - 1] is a newline
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  if (tail_size > 0) pieces.push_back(std::string_view(tail).substr(0, tail_size));
  return pieces;
}

void fail_in_line(const LineError& error, const char* piece, std::uint64_t first_line,
                  const std::string& path) {
  const char* line = error.at;
  while (line > piece && line[-1] != '\n') --line;
  const auto number = first_line + static_cast<std::uint64_t>(std::count(piece, line, '\n'));
  throw with_hint(data_error("{}:{}:{}: {}", path, number, error.at - line + 1, error.message),
                  error.hint);
}

}  // namespace hetsgd
