// Maxima of windows that tile a map two by two without gaps, the usual pooling. The code has no
// branches, because on real maps they are hard to predict.
//
//   a b    a window; a maximum's place is 0, 1, 2, 3 for a, b, c, d
//   c d
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/simd.hpp"
#include "linalg/image_kernels.hpp"

namespace hetsgd::cpu {

inline bool is_two_by_two(const PoolShape& s) {
  return s.kernel_height == 2 && s.kernel_width == 2 && s.stride == 2 && s.padding_height == 0 &&
         s.padding_width == 0 && 2 * s.out_height <= s.in_height && 2 * s.out_width <= s.in_width;
}

// Whether such windows cover every pixel.
inline bool covers(const PoolShape& s) {
  return 2 * s.out_height == s.in_height && 2 * s.out_width == s.in_width;
}

// `maps` maps that such windows cover, stacked as one tall map, so that only its last rows are near
// an end.
inline PoolShape stacked(PoolShape s, std::size_t maps) {
  s.in_height *= maps;
  s.out_height *= maps;
  return s;
}

// Some windows of one row of windows, for rows so near to the map's end that whole vectors reach
// beyond it. Elsewhere vectors lie in the map itself: beyond their row's end they write to later
// rows, which are overwritten afterwards.
template <class Real>
struct WindowRow {
  static constexpr std::size_t kMost = 64;

  static bool inside(const PoolShape& s, std::size_t out, std::size_t in, std::size_t count) {
    const std::size_t lanes = (count + kLanes<Real> - 1) / kLanes<Real> * kLanes<Real>;
    return out + lanes <= s.out_height * s.out_width &&
           in + s.in_width + 2 * lanes <= s.in_height * s.in_width;
  }

  std::array<Real, 2 * kMost> top{}, low{};
  std::array<Real, kMost> value{};
  std::array<std::uint8_t, kMost> place{};
};

// `lanes` integers of one type.
template <class Number, std::size_t lanes>
struct IntegersOf {
  typedef Number Type __attribute__((vector_size(lanes * sizeof(Number))));
};
template <class Number, std::size_t lanes>
using Integers = typename IntegersOf<Number, lanes>::Type;

// The places of one vector of windows: integers as wide as Real, stored as a byte each. Widths
// change by factors of two, because compilers do larger steps element by element.
template <class Real>
using Places = Mask<Real>;

template <class Real>
HETSGD_INLINE Places<Real> read_places(const std::uint8_t* from) {
  constexpr std::size_t kCount = kRegisterLanes<Real>;
  Places<Real> places;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) {
    Integers<std::uint8_t, kCount> bytes;
    std::memcpy(&bytes, from + i * kCount, sizeof(bytes));
    const auto shorts = __builtin_convertvector(bytes, Integers<std::int16_t, kCount>);
    const auto words = __builtin_convertvector(shorts, Integers<std::int32_t, kCount>);
    if constexpr (sizeof(Real) == sizeof(std::int32_t)) {
      places.part[i] = words;
    } else {
      places.part[i] = __builtin_convertvector(words, Integers<std::int64_t, kCount>);
    }
  }
  return places;
}
template <class Real>
HETSGD_INLINE void write_places(const Places<Real>& places, std::uint8_t* to) {
  constexpr std::size_t kCount = kRegisterLanes<Real>;
  std::uint8_t bytes[kLanes<Real>];
  for (std::size_t p = 0; p < kRegisters; ++p) {
    for (std::size_t i = 0; i < kCount; ++i) {
      bytes[p * kCount + i] = static_cast<std::uint8_t>(places.part[p][i]);
    }
  }
  std::memcpy(to, bytes, sizeof(bytes));
}

// Calls f(output pixel, input pixel of its window's top left, count) for pieces of rows.
template <class Real, class F>
HETSGD_INLINE void for_window_rows(const PoolShape& s, F&& f) {
  constexpr std::size_t kMost = WindowRow<Real>::kMost;
  for (std::size_t oh = 0; oh < s.out_height; ++oh) {
    for (std::size_t ow = 0; ow < s.out_width; ow += kMost) {
      f(oh * s.out_width + ow, 2 * oh * s.in_width + 2 * ow, std::min(kMost, s.out_width - ow));
    }
  }
}

// The lanes where the second is larger than the first, or is NaN while the first is not.
template <class Real>
HETSGD_INLINE Mask<Real> second_exceeds(Vec<Real> first, Vec<Real> second) {
  return (second > first) | ((second != second) & (first == first));
}

template <class Real>
void pool_two_by_two(const PoolShape& s, const Real* x, Real* y, std::uint8_t* index) {
  constexpr std::size_t kStep = kLanes<Real>;
  WindowRow<Real> row;
  for_window_rows<Real>(s, [&](std::size_t out, std::size_t in, std::size_t count) {
    const bool inside = row.inside(s, out, in, count);
    if (!inside) {
      std::copy_n(x + in, 2 * count, row.top.data());
      std::copy_n(x + in + s.in_width, 2 * count, row.low.data());
    }
    const Real* const tops = inside ? x + in : row.top.data();
    const Real* const lows = inside ? x + in + s.in_width : row.low.data();
    Real* const values = inside ? y + out : row.value.data();
    std::uint8_t* const places = inside && index ? index + out : row.place.data();
    for (std::size_t i = 0; i < count; i += kStep) {
      const Real *const top = tops + 2 * i, *const low = lows + 2 * i;
      const Vec<Real> a = every_second<Real, 0>(load(top), load(top + kStep));
      const Vec<Real> b = every_second<Real, 1>(load(top), load(top + kStep));
      const Vec<Real> c = every_second<Real, 0>(load(low), load(low + kStep));
      const Vec<Real> d = every_second<Real, 1>(load(low), load(low + kStep));
      const auto right = second_exceeds<Real>(a, b), low_right = second_exceeds<Real>(c, d);
      const Vec<Real> above = select(right, b, a), below = select(low_right, d, c);
      const auto under = second_exceeds<Real>(above, below);
      store(values + i, select(under, below, above));
      write_places<Real>(select(under, 2 - low_right, -right), places + i);  // true is -1
    }
    if (inside) return;
    std::copy_n(values, count, y + out);
    if (index) std::copy_n(places, count, index + out);
  });
}

// to[2 i], to[2 i + 1] <- d[i] where place[i] is `first` or `first` + 1, else 0.
template <class Real>
void spread_row(std::size_t count, const Real* d, const std::uint8_t* place, int first, Real* to) {
  constexpr std::size_t kStep = kLanes<Real>;
  for (std::size_t i = 0; i < count; i += kStep) {
    const Vec<Real> value = load(d + i), zero{};
    const Places<Real> at = read_places<Real>(place + i) - first;
    const Vec<Real> left = select(at == 0, value, zero), right = select(at == 1, value, zero);
    store(to + 2 * i, interleaved<Real, 0>(left, right));
    store(to + 2 * i + kStep, interleaved<Real, 1>(left, right));
  }
}

// dx += dy at the places that `index` names. With `fresh`, dx = dy there and 0 elsewhere, for
// windows that cover the map.
template <class Real>
void spread_two_by_two(const PoolShape& s, const std::uint8_t* index, const Real* dy, bool fresh,
                       Real* dx) {
  WindowRow<Real> row;
  for_window_rows<Real>(s, [&](std::size_t out, std::size_t in, std::size_t count) {
    Real *const top = dx + in, *const low = top + s.in_width;
    // The top row of a second piece must not reach into the low row, whose first piece is done.
    const bool apart = s.out_width <= row.kMost || count % kLanes<Real> == 0;
    if (fresh && apart && row.inside(s, out, in, count)) {
      spread_row(count, dy + out, index + out, 0, top);
      return spread_row(count, dy + out, index + out, 2, low);
    }
    std::copy_n(dy + out, count, row.value.data());
    std::copy_n(index + out, count, row.place.data());
    spread_row(count, row.value.data(), row.place.data(), 0, row.top.data());
    spread_row(count, row.value.data(), row.place.data(), 2, row.low.data());
    for (std::size_t i = 0; i < 2 * count; ++i) top[i] = row.top[i] + (fresh ? Real(0) : top[i]);
    for (std::size_t i = 0; i < 2 * count; ++i) low[i] = row.low[i] + (fresh ? Real(0) : low[i]);
  });
}

}  // namespace hetsgd::cpu
