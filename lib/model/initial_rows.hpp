// Initial rows of embedding tables: a pure function of (seed, field, value). So a row begins alike
// wherever it lies, in a replica's flat vector or in any rank's shard, and whenever it is made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace hetsgd {

// The values of all categories as the source writes them, over all fields
// (CategoricalFields::value): a view and its owner. Empty: values were hashed, and a category's
// index within its field stands for its value.
struct CategoryValues {
  std::span<const std::uint32_t> value = {};
  std::shared_ptr<const void> owner = {};
};

// The key of each row r of a table: its field and its value. Without fields: field 0, value r.
struct RowKeys {
  // first row of each field, then the number of rows; ascending
  std::vector<std::uint32_t> first = {};
  CategoryValues values = {};

  std::uint32_t field_of(std::uint32_t row) const {
    if (first.empty()) return 0;
    const auto after = std::upper_bound(first.begin() + 1, first.end() - 1, row);
    return static_cast<std::uint32_t>(after - first.begin() - 1);
  }
  std::uint32_t value_of(std::uint32_t field, std::uint32_t row) const {
    if (!values.value.empty()) return values.value[row];
    return first.empty() ? row : row - first[field];
  }
};

// The initial law of a table: N(0, std), truncated at 2 std, in the first `drawn` columns; 0 in the
// others.
struct TableRows {
  RowKeys keys;
  std::uint64_t seed = 1;
  double std = 0;
  std::size_t drawn = 0;

  // to[0 .. end - begin) <- columns [begin, end) of row `row` of field `field`. Any split into
  // columns gives the same values. Instantiated for float, which rounds the double value, and
  // double. Thread-safe.
  template <class Real>
  void make(std::uint32_t field, std::uint32_t row, std::size_t begin, std::size_t end,
            Real* to) const;
};

// u in (0, 1) -> (-2, 2): the quantile of N(0, 1) truncated to [-2, 2]. Error below 1e-8.
double truncated_normal(double u);

}  // namespace hetsgd
