// Click data before they have a vocabulary: labels, dense columns and the 32-bit values of fields,
// as a file or the generator gives them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hetsgd {

// The columns of Criteo's files, I1..I13 and C1..C26. No click data have more.
inline constexpr std::size_t kCriteoDense = 13, kCriteoFields = 26;

// One row. Bit i of a mask is set if column i has no value; the array holds 0 there.
struct RawClick {
  bool positive = false;
  std::uint32_t no_number = 0, no_value = 0;
  std::array<std::int64_t, kCriteoDense> number{};
  std::array<std::uint32_t, kCriteoFields> value{};
};

// log(1 + max(v, 0)). It uses no statistics of the data, so no test data influence the training.
inline float dense_feature(std::int64_t number) {
  return static_cast<float>(std::log1p(static_cast<double>(std::max<std::int64_t>(number, 0))));
}

// Rows as arrays: the content of RawClick with dense features (a missing number is 0).
struct RawClicks {
  RawClicks(std::size_t columns, std::size_t fields)
      : dense_columns(columns), field_count(fields) {}

  std::size_t rows() const { return positive.size(); }
  void resize(std::size_t rows) {
    positive.resize(rows);
    dense.resize(rows * dense_columns);
    value.resize(rows * field_count);
    no_value.resize(rows);
  }
  void set(std::size_t row, const RawClick& click) {
    positive[row] = click.positive ? 1 : 0;
    no_value[row] = click.no_value;
    for (std::size_t k = 0; k < dense_columns; ++k) {
      dense[row * dense_columns + k] = dense_feature(click.number[k]);
    }
    std::copy_n(click.value.data(), field_count, value.data() + row * field_count);
  }
  bool lacks(std::size_t row, std::size_t field) const { return (no_value[row] >> field & 1) != 0; }

  std::size_t dense_columns, field_count;
  std::vector<std::uint8_t> positive;   // [rows] 0 or 1
  std::vector<float> dense;             // [rows x dense_columns]
  std::vector<std::uint32_t> value;     // [rows x field_count]; 0 if missing
  std::vector<std::uint32_t> no_value;  // [rows] masks
};

}  // namespace hetsgd
