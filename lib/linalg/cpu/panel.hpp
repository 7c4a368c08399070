// Panels of the right factor of a product: kPanel columns side by side, row by row.
#pragma once

#include <algorithm>
#include <cstddef>

#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

// panel[k][kPanel] <- the columns at `from`, which lie one after the other, each contiguous.
template <class Real>
void pack_contiguous(const Real* from, std::size_t column, std::size_t depth, Real* panel) {
  constexpr std::size_t kWidth = kRegisterLanes<Real>;
  for (std::size_t j = 0; j < kPanel<Real>; j += kWidth, from += kWidth * column) {
    std::size_t k = 0;
    for (; k + kWidth <= depth; k += kWidth) {
      Register<Real> v[kWidth];
#pragma GCC unroll 16
      for (std::size_t i = 0; i < kWidth; ++i) v[i] = load_register(from + i * column + k);
      transpose<Real>(v);
#pragma GCC unroll 16
      for (std::size_t i = 0; i < kWidth; ++i) {
        store_register(panel + (k + i) * kPanel<Real> + j, v[i]);
      }
    }
    for (; k < depth; ++k) {
      for (std::size_t i = 0; i < kWidth; ++i)
        panel[k * kPanel<Real> + j + i] = from[i * column + k];
    }
  }
}

// panel[k][kPanel] <- from[k * k_stride + j * column_stride] for j < columns, zero to the right of
// them.
template <class Real>
void pack_panel(const Real* from, std::size_t k_stride, std::size_t column_stride,
                std::size_t depth, std::size_t columns, Real* panel) {
  if (column_stride == 1) {
    for (std::size_t k = 0; k < depth; ++k, panel += kPanel<Real>) {
      const Real* row = from + k * k_stride;
      for (std::size_t j = 0; j < columns; ++j) panel[j] = row[j];
      for (std::size_t j = columns; j < kPanel<Real>; ++j) panel[j] = Real(0);
    }
    return;
  }
  if (k_stride == 1 && columns == kPanel<Real>) {
    pack_contiguous(from, column_stride, depth, panel);
    return;
  }
  for (std::size_t j = 0; j < kPanel<Real>; ++j) {
    const Real* column = from + j * column_stride;
    for (std::size_t k = 0; k < depth; ++k) {
      panel[k * kPanel<Real> + j] = j < columns ? column[k * k_stride] : Real(0);
    }
  }
}

}  // namespace hetsgd::cpu
