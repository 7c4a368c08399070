// A table of texts, for people (aligned), Markdown, LaTeX and CSV.
#pragma once

#include <string>
#include <vector>

namespace hetsgd {

enum class TableFormat { text, markdown, latex, csv };

class Table {
 public:
  // Columns whose cells are numbers are right-aligned; the first one is left-aligned.
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row);  // as many cells as the header has
  bool empty() const { return rows_.empty(); }
  // Ends with a newline. CSV as in RFC 4180, but with bare newlines; a cell "-" (no value) is empty
  // there. LaTeX: a tabular with the rules of the package booktabs.
  std::string format(TableFormat format) const;

 private:
  std::string aligned(TableFormat format) const;
  std::string latex() const;
  std::vector<bool> numeric_columns() const;

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace hetsgd
