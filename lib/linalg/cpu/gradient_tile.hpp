// The micro-kernel of parameter gradients of convolutions: products of output rows with the rows of
// planes (planes.hpp), summed in the lanes of registers, then over the lanes.
#pragma once

#include <cstddef>
#include <vector>

#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

// Filters of a tile, and its columns, which are elements of a filter: 4 x 6 sums and 5 operands,
// or 2 x 2 sums and 3 operands of two registers each.
inline constexpr int kFilters = kRegisters == 1 ? 4 : 2;
inline constexpr int kManyColumns = kRegisters == 1 ? 6 : 2;
inline constexpr int kFewColumns = kRegisters == 1 ? 5 : 2;  // of filters of 5 x 5

// v[i] <- the sums of neighbouring lanes of v[2 i] and v[2 i + 1], and so on, until lane j of v[0]
// is the sum of the lanes of the j-th of `count` vectors.
template <class Real, std::size_t count>
HETSGD_INLINE void add_lanes(Vec<Real>* v) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < count / 2; ++i) {
    v[i] = every_second<Real, 0>(v[2 * i], v[2 * i + 1]) +
           every_second<Real, 1>(v[2 * i], v[2 * i + 1]);
  }
  if constexpr (count > 2) add_lanes<Real, count / 2>(v);
}

// A piece of the output of one sample: its dY at the planes' pitch, and the start of its q in X's
// planes.
template <class Real>
struct Segment {
  const Real* x = nullptr;
  const Real* d = nullptr;  // [filters x length]
  std::size_t length = 0;
};

// to[i * ld + j] += sum over segments and q of d_i(q) x(base[j] + q), j < wanted <= columns.
template <class Real, int rows, int columns>
void gradient_tile(const std::vector<Segment<Real>>& segments, std::size_t filter,
                   const std::size_t* base, std::size_t wanted, Real* to, std::size_t ld) {
  Vec<Real> sum[rows][columns] = {};
  for (const Segment<Real>& segment : segments) {
    const Real* const d = segment.d + filter * segment.length;
    const Real* x[columns];
    for (int j = 0; j < columns; ++j) x[j] = segment.x + base[j];
    for (std::size_t q = 0; q < segment.length; q += kLanes<Real>) {
      Vec<Real> di[rows];
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) {
        di[i] = load(d + static_cast<std::size_t>(i) * segment.length + q);
        keep_in_registers(di[i]);
      }
#pragma GCC unroll 8
      for (int j = 0; j < columns; ++j) {
        Vec<Real> xj = load(x[j] + q);
        keep_in_registers(xj);  // rows of planes lie across two cache lines
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) sum[i][j] = fused(di[i], xj, sum[i][j]);
      }
    }
  }
  constexpr std::size_t kSums = static_cast<std::size_t>(rows) * columns;
  constexpr std::size_t kGroups = (kSums + kLanes<Real> - 1) / kLanes<Real>;
  Real each[kGroups * kLanes<Real>];
#pragma GCC unroll 12
  for (std::size_t group = 0; group < kGroups; ++group) {
    Vec<Real> v[kLanes<Real>];
#pragma GCC unroll 16
    for (std::size_t lane = 0; lane < kLanes<Real>; ++lane) {
      const std::size_t at = group * kLanes<Real> + lane;
      v[lane] = at < kSums ? sum[at / columns][at % columns] : Vec<Real>{};
    }
    add_lanes<Real, kLanes<Real>>(v);
    store(each + group * kLanes<Real>, v[0]);
  }
  for (std::size_t i = 0; i < rows; ++i, to += ld) {
    for (std::size_t j = 0; j < wanted; ++j) to[j] += each[i * columns + j];
  }
}

}  // namespace hetsgd::cpu
