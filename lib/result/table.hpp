// A table of texts that is formatted as aligned text, Markdown or CSV.
#pragma once

#include <string>
#include <vector>

namespace hetsgd {

enum class OutputFormat { text, markdown, csv, json };

class Table {
 public:
  // Columns whose cells are numbers are right-aligned; the first one is left-aligned.
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row);  // as many cells as the header has
  bool empty() const { return rows_.empty(); }
  // Ends with a newline. CSV follows RFC 4180 with bare newlines, and a cell "-" (no value) is
  // empty in it. Throws CheckFailure for JSON, which is made of values and not of a table.
  std::string format(OutputFormat format) const;

 private:
  std::string aligned(OutputFormat format) const;
  std::vector<bool> numeric_columns() const;

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace hetsgd
