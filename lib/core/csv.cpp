#include "core/csv.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/error.hpp"
#include "core/input_file.hpp"

namespace hetsgd {

CsvRows::CsvRows(std::string_view text, const std::string& path, std::string_view columns)
    : path_(path), columns_(columns), lines_(split(text, '\n')) {
  refuse_other_kinds(text, path, fmt::format("lines {}", columns), TextUse::rows);
  width_ = static_cast<std::size_t>(std::ranges::count(columns_, ',')) + 1;
}

CsvRows::CsvRows(std::string_view text, const std::string& path, std::string_view columns,
                 bool anywhere)
    : CsvRows(text, path, columns) {
  if (anywhere) find_columns();
}

void CsvRows::find_columns() {
  while (line_ < lines_.size() && trim(lines_[line_]).empty()) ++line_;
  const std::string_view header = line_ < lines_.size() ? trim(lines_[line_]) : "";
  ++line_;
  std::vector<std::string_view> names = split(header, ',');
  for (std::string_view& name : names) {
    name = trim(name);
    if (name.size() > 1 && name.front() == '"' && name.back() == '"') {
      name = name.substr(1, name.size() - 2);
    }
  }
  for (const std::string_view column : split(columns_, ',')) {
    if (std::ranges::count(names, column) != 1) {
      throw data_error("{}:{}:1: found {}, expected a header with one column {}", path_, line_,
                       quote(header), quote(column));
    }
    places_.push_back(static_cast<std::size_t>(std::ranges::find(names, column) - names.begin()));
  }
  width_ = names.size();
  begun_ = true;
}

// Whether the line names columns. A comment does so if its first word is the first column's name.
bool CsvRows::is_header(std::string_view line) const {
  std::string names = lower(line);
  std::erase_if(names, [](char c) { return c == ' ' || c == '\t' || c == '"' || c == '#'; });
  const bool named = line.front() == '#'
                         ? names.starts_with(columns_.substr(0, columns_.find(',') + 1))
                         : !names.empty() && std::isalpha(static_cast<unsigned char>(names[0]));
  if (!named || names == columns_) return named;
  refuse(fmt::format("{}:{}:1", path_, line_), quote(line), fmt::format("the header {}", columns_),
         "a name says the unit: convert the numbers, and name the columns so", ExitCode::data);
}

bool CsvRows::next() {
  while (line_ < lines_.size()) {
    const std::string_view whole = lines_[line_++], line = trim(whole);
    const bool header = !line.empty() && !begun_ && is_header(line);
    if (header) begun_ = true;
    if (line.empty() || header || line.front() == '#') continue;
    begun_ = true;
    fields_ = split(whole, ',');
    if (fields_.size() != width_) {
      throw data_error("{}:{}:1: found {} fields, expected {}: {}", path_, line_, fields_.size(),
                       width_, places_.empty() ? columns_ : "as many as the header has");
    }
    if (places_.empty()) return true;
    std::vector<std::string_view> chosen;
    for (const std::size_t place : places_) chosen.push_back(fields_[place]);
    fields_ = std::move(chosen);
    return true;
  }
  return false;
}

double CsvRows::number(std::size_t column, double most, std::string_view expected) const {
  const std::string_view text = field(column);
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = error == std::errc{} && end == text.data() + text.size();
  if (!all || !(value >= 0 && value <= most)) fail(column, expected);
  return value;
}

std::uint64_t CsvRows::whole(std::size_t column, double most, std::string_view expected) const {
  const double value = number(column, most, expected);
  if (value != std::floor(value)) fail(column, expected);
  return static_cast<std::uint64_t>(value);
}

void CsvRows::fail(std::size_t column, std::string_view expected) const {
  const auto place = fields_[column].data() - lines_[line_ - 1].data() + 1;
  throw data_error("{}:{}:{}: found {}, expected {}", path_, line_, place, quote(field(column)),
                   expected);
}

}  // namespace hetsgd
