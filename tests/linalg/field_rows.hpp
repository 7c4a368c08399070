// Random rows of dense columns and categories.
#pragma once

#include "linalg/reference.hpp"

namespace hetsgd::test {

struct FieldShape {
  std::size_t rows, columns, fields, embedding, extra, per_field;
};
// No rows; one of everything; no dense columns; no embedding; rows that all look up the same;
// hardly a repetition; a batch larger than a hash table's first places.
inline constexpr FieldShape kFieldShapes[] = {
    {0, 2, 3, 4, 1, 5},  {1, 1, 1, 1, 0, 1},    {40, 0, 5, 16, 1, 20},   {33, 13, 4, 0, 1, 6},
    {50, 3, 2, 8, 0, 1}, {70, 2, 3, 7, 1, 900}, {600, 1, 26, 16, 1, 40}, {90, 1, 2, 32, 1, 60}};

struct RandomFields {
  RandomFields(const FieldShape& s, std::uint64_t seed) : shape(s) {
    RandomStream random(seed, Purpose::test, 79);
    const std::size_t stored = s.rows + 2;
    for (std::size_t i = 0; i < stored * s.columns; ++i) {
      dense.push_back(static_cast<float>(random.uniform(-1, 1)));
    }
    for (std::size_t i = 0; i < stored * s.fields; ++i) {
      category.push_back(
          static_cast<std::uint32_t>(i % s.fields * s.per_field + random.below(s.per_field)));
    }
    for (std::size_t i = 0; i < s.rows; ++i) {
      row.push_back(static_cast<std::uint32_t>(random.below(stored)));
    }
  }

  template <class Real>
  FieldRows<Real> view() const {
    return {row.size(), shape.columns, shape.fields,   categories(),
            row.data(), dense.data(),  category.data()};
  }
  std::size_t categories() const { return shape.fields * shape.per_field; }
  float dense_at(std::size_t r, std::size_t j) const { return dense[row[r] * shape.columns + j]; }
  std::size_t category_at(std::size_t r, std::size_t f) const {
    return category[row[r] * shape.fields + f];
  }

  FieldShape shape;
  std::vector<float> dense;
  std::vector<std::uint32_t> category, row;
};

}  // namespace hetsgd::test
