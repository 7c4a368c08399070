// One line of XC or libSVM text -> one row of a CSR matrix. The hot loop of loading.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/dataset.hpp"
#include "data/number.hpp"

namespace hetsgd {

// Bounds of the numbers in a line. XC: the header's numbers. libSVM: what the types can hold.
struct LineRules {
  bool xc = false;
  std::uint64_t first_feature = 0;  // the smallest feature index: 0, or 1 if that is known
  std::uint64_t features = 0;       // feature indices stay below
  std::uint64_t labels = 0;         // labels stay below
};

// Whether the line (any bytes, ended by a newline) is a row, not a comment and not skipped.
bool is_row(const char* line, bool xc);

// The destination of parsed rows: places in the final arrays, with room for all that the text can
// contain. Labels are written as numbers; in libSVM text they may be negative (two's complement).
struct RowSink {
  Index* feature_index = nullptr;
  float* feature_value = nullptr;
  Index* label = nullptr;
  std::uint64_t* feature_count = nullptr;  // per row: entries of this chunk up to and with the row
  std::uint64_t* label_count = nullptr;
};

// A complaint about the text at `at`. It becomes an Error with file:line:column.
struct LineError {
  const char* at;
  std::string message;
  std::string hint = "";
};

// A text for a message: in quotes, at most 40 characters, unprintable bytes escaped.
std::string quoted(std::string_view text);
// quoted() for the text from `p` to the next blank or newline; "nothing" if there is none.
std::string quoted_token(const char* p);

// Parses lines one after the other into the places of a sink, and counts what it found.
class LineParser {
 public:
  LineParser(const LineRules& rules, const RowSink& sink) : rules_(rules), sink_(sink) {}

  // Parses one line and returns the start of the next. The line ends in a newline, and at least
  // kNumberPadding bytes are readable after every byte of it. Throws LineError.
  const char* parse_line(const char* line);

  std::uint64_t rows() const { return rows_; }
  std::uint64_t features() const { return features_; }
  std::uint64_t labels() const { return labels_; }
  bool has_feature_zero() const { return has_feature_zero_; }
  std::uint64_t feature_limit() const { return feature_limit_; }  // largest index + 1

 private:
  const char* parse_labels(const char* p);
  const char* parse_label(const char* p, std::uint32_t& label) const;
  const char* parse_features(const char* p);
  const char* parse_any_value(const char* token, const char* p, float& value) const;
  void sort_features(const char* line, std::uint64_t first);
  void sort_labels(const char* line, std::uint64_t first);
  [[noreturn]] void fail_feature(const char* token, const char* after_index) const;
  [[noreturn]] void fail_value(const char* token, const ParsedNumber& number) const;
  [[noreturn]] void fail_label(const char* token, const char* after, std::uint64_t number) const;
  [[noreturn]] void fail_index_zero(const char* line, Index index) const;
  [[noreturn]] void fail_feature_range(const char* token, std::uint64_t index) const;

  LineRules rules_;
  RowSink sink_;
  std::uint64_t rows_ = 0, features_ = 0, labels_ = 0;
  std::uint64_t feature_limit_ = 0;
  bool has_feature_zero_ = false;
  bool sorted_ = true;  // the features of the row at hand
  std::vector<std::pair<Index, float>> scratch_;
};

// The rule of line ends for every format: "\n", or "\r\n" as Windows writes it. Another readable
// byte must follow `p`.
inline bool ends_line(const char* p) { return *p == '\n' || (*p == '\r' && p[1] == '\n'); }

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// --- text in pieces of whole lines, which threads read side by side ------------------------------

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
