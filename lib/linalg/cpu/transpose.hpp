// Transposition of matrices by squares of registers.
#pragma once

#include <algorithm>
#include <cstddef>

#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

// to[j * to_ld + i] = from[i * from_ld + j] for i < rows, j < columns. The last squares lie over
// those before them, so that none reaches beyond the matrix.
template <class Real>
void transpose(std::size_t rows, std::size_t columns, const Real* from, std::size_t from_ld,
               Real* to, std::size_t to_ld) {
  constexpr std::size_t kSide = kLanes<Real>;
  if (rows < kSide || columns < kSide) {
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) to[j * to_ld + i] = from[i * from_ld + j];
    }
    return;
  }
  for (std::size_t row = 0; row < rows; row += kSide) {
    const std::size_t i = std::min(row, rows - kSide);
    for (std::size_t column = 0; column < columns; column += kSide) {
      const std::size_t j = std::min(column, columns - kSide);
      Vec<Real> square[kSide];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < kSide; ++r) square[r] = load(from + (i + r) * from_ld + j);
      transpose<Real>(square);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < kSide; ++r) store(to + (j + r) * to_ld + i, square[r]);
    }
  }
}

}  // namespace hetsgd::cpu
