// Maxima of windows that tile a map two by two, each in one piece: the usual pooling, without
// branches, which real maps make hard to foresee.
//
//   a b    a window; a maximum's place is 0, 1, 2, 3 for a, b, c, d
//   c d
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/simd.hpp"
#include "linalg/image_kernels.hpp"

namespace hetsgd::cpu {

inline bool is_two_by_two(const PoolShape& s) {
  return s.kernel_height == 2 && s.kernel_width == 2 && s.stride == 2 && s.padding_height == 0 &&
         s.padding_width == 0 && 2 * s.out_height <= s.in_height && 2 * s.out_width <= s.in_width;
}

// Some windows of one row of them, whole vectors of them in the registers' reach.
template <class Real>
struct WindowRow {
  static constexpr std::size_t kMost = 64;
  using Place = decltype(Vec<Real>{} > Vec<Real>{});  // signed integers as wide as Real

  std::array<Real, 2 * kMost> top{}, low{};
  std::array<Real, kMost> value{};
  std::array<std::int64_t, kMost * sizeof(Real) / sizeof(std::int64_t)> place{};

  Place place_at(std::size_t i) const {
    Place p;
    std::memcpy(&p, bytes(i), sizeof(p));
    return p;
  }
  void set_place(std::size_t i, Place p) { std::memcpy(bytes(i), &p, sizeof(p)); }
  void read_places(std::size_t count, const std::uint8_t* index) {
    auto* const p = numbers();
    for (std::size_t i = 0; i < count; ++i) p[i] = index[i];
  }
  void write_places(std::size_t count, std::uint8_t* index) {
    const auto* const p = numbers();
    for (std::size_t i = 0; i < count; ++i) index[i] = static_cast<std::uint8_t>(p[i]);
  }

 private:
  using Number = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;
  typedef Number Aliased __attribute__((may_alias));
  Aliased* numbers() { return reinterpret_cast<Aliased*>(place.data()); }
  char* bytes(std::size_t i) { return reinterpret_cast<char*>(place.data()) + i * sizeof(Real); }
  const char* bytes(std::size_t i) const {
    return reinterpret_cast<const char*>(place.data()) + i * sizeof(Real);
  }
};

// f(output pixel, input pixel of its window's top left, count) for pieces of rows.
template <class Real, class F>
HETSGD_INLINE void for_window_rows(const PoolShape& s, F&& f) {
  constexpr std::size_t kMost = WindowRow<Real>::kMost;
  for (std::size_t oh = 0; oh < s.out_height; ++oh) {
    for (std::size_t ow = 0; ow < s.out_width; ow += kMost) {
      f(oh * s.out_width + ow, 2 * oh * s.in_width + 2 * ow, std::min(kMost, s.out_width - ow));
    }
  }
}

// The lanes in which the second is larger than the first, or is NaN where the first is none.
template <class Real>
HETSGD_INLINE auto second_exceeds(Vec<Real> first, Vec<Real> second) {
  return (second > first) | ((second != second) & (first == first));
}

template <class Real>
void pool_two_by_two(const PoolShape& s, const Real* x, Real* y, std::uint8_t* index) {
  constexpr std::size_t kStep = kLanes<Real>;
  WindowRow<Real> row;
  for_window_rows<Real>(s, [&](std::size_t out, std::size_t in, std::size_t count) {
    std::copy_n(x + in, 2 * count, row.top.data());
    std::copy_n(x + in + s.in_width, 2 * count, row.low.data());
    for (std::size_t i = 0; i < count; i += kStep) {
      const Real *const top = row.top.data() + 2 * i, *const low = row.low.data() + 2 * i;
      const Vec<Real> a = every_second<Real, 0>(load(top), load(top + kStep));
      const Vec<Real> b = every_second<Real, 1>(load(top), load(top + kStep));
      const Vec<Real> c = every_second<Real, 0>(load(low), load(low + kStep));
      const Vec<Real> d = every_second<Real, 1>(load(low), load(low + kStep));
      const auto right = second_exceeds<Real>(a, b), low_right = second_exceeds<Real>(c, d);
      const Vec<Real> above = right ? b : a, below = low_right ? d : c;
      const auto under = second_exceeds<Real>(above, below);
      store(row.value.data() + i, under ? below : above);
      row.set_place(i, under ? 2 - low_right : -right);  // true is -1
    }
    std::copy_n(row.value.data(), count, y + out);
    if (index) row.write_places(count, index + out);
  });
}

// dx += dy at the places that `index` names.
template <class Real>
void spread_two_by_two(const PoolShape& s, const std::uint8_t* index, const Real* dy, Real* dx) {
  constexpr std::size_t kStep = kLanes<Real>;
  WindowRow<Real> row;
  for_window_rows<Real>(s, [&](std::size_t out, std::size_t in, std::size_t count) {
    std::copy_n(dy + out, count, row.value.data());
    row.read_places(count, index + out);
    for (std::size_t i = 0; i < count; i += kStep) {
      const Vec<Real> d = load(row.value.data() + i), zero{};
      const auto place = row.place_at(i);
      const Vec<Real> at[4] = {place == 0 ? d : zero, place == 1 ? d : zero, place == 2 ? d : zero,
                               place == 3 ? d : zero};
      store(row.top.data() + 2 * i, interleaved<Real, 0>(at[0], at[1]));
      store(row.top.data() + 2 * i + kStep, interleaved<Real, 1>(at[0], at[1]));
      store(row.low.data() + 2 * i, interleaved<Real, 0>(at[2], at[3]));
      store(row.low.data() + 2 * i + kStep, interleaved<Real, 1>(at[2], at[3]));
    }
    for (std::size_t i = 0; i < 2 * count; ++i) dx[in + i] += row.top[i];
    for (std::size_t i = 0; i < 2 * count; ++i) dx[in + s.in_width + i] += row.low[i];
  });
}

}  // namespace hetsgd::cpu
