// Lines of numbers with commas between them, as people and their tools write them (CSV).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.hpp"

namespace hetsgd {

// Goes through the rows of a text. Empty lines and comments (#) are no rows. The first line may be
// a header, also as a comment: it must have the names of the columns, because another name may mean
// another unit. Throws Error(data), which opens with file:line:column.
class CsvRows {
 public:
  // `columns`: "worker,step,seconds". The views must outlive this object.
  CsvRows(std::string_view text, const std::string& path, std::string_view columns);
  // `anywhere`: the first line is a header, which has these names at any place, among others.
  CsvRows(std::string_view text, const std::string& path, std::string_view columns, bool anywhere);

  // Goes to the next row. False: there is none.
  bool next();
  std::size_t line() const { return line_; }
  std::string_view field(std::size_t column) const { return trim(fields_[column]); }
  // A field that must be a number from 0 to `most`, or a whole one. `expected` is for the message.
  double number(std::size_t column, double most, std::string_view expected) const;
  std::uint64_t whole(std::size_t column, double most, std::string_view expected) const;
  [[noreturn]] void fail(std::size_t column, std::string_view expected) const;

 private:
  bool is_header(std::string_view line) const;
  void find_columns();

  const std::string& path_;
  std::string_view columns_;
  std::vector<std::string_view> lines_, fields_;
  std::size_t line_ = 0;                  // of the row, from 1
  bool begun_ = false;                    // a row or a header has been there
  std::vector<std::size_t> places_ = {};  // of the columns; empty: they are all that a row has
  std::size_t width_;                     // of a row
};

}  // namespace hetsgd
