#include "result/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

std::string csv_cell(const std::string& cell) {
  if (cell == "-") return "";
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string result = "\"";
  for (const char c : cell) {
    if (c == '"') result += c;
    result += c;
  }
  return result + "\"";
}

std::string csv_line(const std::vector<std::string>& row) {
  std::vector<std::string> cells;
  for (const std::string& cell : row) cells.push_back(csv_cell(cell));
  return fmt::format("{}\n", fmt::join(cells, ","));
}

// Whether a cell counts as a number. "-" and "inf" do.
bool is_numeric(const std::string& cell) {
  return cell.empty() || cell == "inf" || cell == "nan" ||
         cell.find_first_of("0123456789-<>~(") == 0;
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  HETSGD_CHECK_EQ(row.size(), header_.size());
  for (std::string& cell : row) cell = printable(cell);  // a newline would break the line
  rows_.push_back(std::move(row));
}

std::string Table::format(OutputFormat format) const {
  HETSGD_CHECK(format != OutputFormat::json);
  if (format != OutputFormat::csv) return aligned(format);
  std::string text = csv_line(header_);
  for (const auto& row : rows_) text += csv_line(row);
  return text;
}

std::vector<bool> Table::numeric_columns() const {
  std::vector<bool> numeric(header_.size(), true);
  numeric[0] = false;
  for (const auto& row : rows_) {
    for (std::size_t i = 1; i < row.size(); ++i) numeric[i] = numeric[i] && is_numeric(row[i]);
  }
  return numeric;
}

std::string Table::aligned(OutputFormat format) const {
  const bool markdown = format == OutputFormat::markdown;
  std::vector<std::size_t> width(header_.size());
  const std::vector<bool> right = numeric_columns();
  for (std::size_t i = 0; i < header_.size(); ++i) {
    width[i] = std::max<std::size_t>(header_[i].size(), markdown ? 3 : 1);
    for (const auto& row : rows_) width[i] = std::max(width[i], row[i].size());
  }
  const auto line = [&](const std::vector<std::string>& row) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = right[i] ? fmt::format("{:>{}}", row[i], width[i])
                                        : fmt::format("{:<{}}", row[i], width[i]);
      text += markdown ? fmt::format("| {} ", cell) : fmt::format("{}{}", i ? "  " : "", cell);
    }
    if (markdown) return text + "|\n";
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line(header_);
  for (std::size_t i = 0; i < header_.size(); ++i) {
    const bool marked = markdown && right[i];
    const std::string rule = std::string(width[i] - marked, '-') + (marked ? ":" : "");
    text += markdown ? fmt::format("| {} ", rule) : fmt::format("{}{}", i ? "  " : "", rule);
  }
  text += markdown ? "|\n" : "\n";
  for (const auto& row : rows_) text += line(row);
  return text;
}

}  // namespace hetsgd
