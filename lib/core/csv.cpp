#include "core/csv.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/error.hpp"
#include "core/file_kind.hpp"

namespace hetsgd {

CsvRows::CsvRows(std::string_view text, const std::string& path, std::string_view columns)
    : path_(path), columns_(columns), lines_(split(text, '\n')) {
  refuse_other_kinds(text, path, fmt::format("lines {}", columns), TextUse::rows);
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
    const auto expected = static_cast<std::size_t>(std::ranges::count(columns_, ',')) + 1;
    if (fields_.size() == expected) return true;
    throw data_error("{}:{}:1: found {} fields, expected {}: {}", path_, line_, fields_.size(),
                     expected, columns_);
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
