// Images laid out so that a convolution needs no copy of its windows.
//
// Planes : the padded image in stride x stride phases. Plane (c, a, b) holds the pixels (s i + a,
//          s j + b) of the padded channel c, at i * pitch + j. With output pixel (h, w) numbered
//          q = h pitch + w, the value that the filter's element (c, i, j) meets at q is
//          planes[base(c, i, j) + q]: for every element of the filter a contiguous row. Its
//          values with w >= out_width are not wanted (gaps).
// Rows   : maps of the output at the same pitch, gaps filled with zeros.
// Blocks : runs of output rows whose q are computed together, small enough for the caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "linalg/convolution_kernels.hpp"
#include "linalg/cores/cores.hpp"
#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

// The layout of planes, rows and blocks (see above) for one shape. All sizes are in elements.
struct PlaneLayout {
  explicit PlaneLayout(const ConvolutionShape& s)
      : pitch(s.out_width + (s.kernel_width - 1) / s.stride),
        rows(s.out_height + (s.kernel_height - 1) / s.stride),
        plane(rows * pitch),
        phases(s.stride * s.stride),
        block_rows(std::clamp<std::size_t>(kBlock / pitch, 1, s.out_height)) {}

  static constexpr std::size_t kBlock = 1024;  // q of a block, about
  static constexpr std::size_t kTile = 3;      // vectors of q that are computed together at most

  std::size_t pitch, rows, plane, phases;
  std::size_t block_rows;  // output rows of a block

  // Elements of `channels` channels, and behind them zeros for everything that a tile reads beyond.
  // Whole vectors, so that data behind them are aligned.
  template <class Real>
  std::size_t size(std::size_t channels) const {
    constexpr std::size_t kWhole = kLanes<Real>;
    const std::size_t numbers = channels * phases * plane + pitch + kTile * kWhole;
    return (numbers + kWhole - 1) / kWhole * kWhole;
  }
  // Elements of `count` output rows at this pitch, in whole groups of `vectors`.
  template <class Real>
  std::size_t row_length(std::size_t count, std::size_t vectors = kTile) const {
    const std::size_t whole = vectors * kLanes<Real>;
    return (count * pitch + whole - 1) / whole * whole;
  }

  // base(c, i, j) for channels 0..channels, in the order of a filter's elements.
  std::vector<std::size_t> bases(const ConvolutionShape& s, std::size_t channels) const {
    std::vector<std::size_t> list;
    list.reserve(channels * s.kernel_height * s.kernel_width);
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = 0; i < s.kernel_height; ++i) {
        for (std::size_t j = 0; j < s.kernel_width; ++j) {
          const std::size_t phase = i % s.stride * s.stride + j % s.stride;
          list.push_back((c * phases + phase) * plane + i / s.stride * pitch + j / s.stride);
        }
      }
    }
    return list;
  }
};

// Calls f(pixel offset in the channel's map, offset in the plane, count) for each run of pixels of
// one channel that a row of a plane holds. Pixels of a run lie `stride` apart in the map.
template <class F>
HETSGD_INLINE void for_plane_rows(const ConvolutionShape& s, const PlaneLayout& layout, F&& f) {
  for (std::size_t a = 0; a < s.stride; ++a) {
    for (std::size_t b = 0; b < s.stride; ++b) {
      const std::size_t phase = a * s.stride + b;
      // The range of j with 0 <= s j + b - p < in_width.
      const std::size_t first =
          b >= s.padding_width ? 0 : (s.padding_width - b + s.stride - 1) / s.stride;
      const std::size_t reach = s.in_width + s.padding_width;
      const std::size_t end =
          reach > b ? std::min(layout.pitch, (reach - b + s.stride - 1) / s.stride) : 0;
      if (first >= end) continue;
      for (std::size_t i = 0; i < layout.rows; ++i) {
        const std::size_t h = i * s.stride + a;
        if (h < s.padding_height || h >= s.in_height + s.padding_height) continue;
        f((h - s.padding_height) * s.in_width + first * s.stride + b - s.padding_width,
          phase * layout.plane + i * layout.pitch + first, end - first);
      }
    }
  }
}

// planes <- one sample X.
template <class Real>
void write_planes(const ConvolutionShape& s, const PlaneLayout& layout, const Real* X,
                  Real* planes) {
  std::fill_n(planes, layout.size<Real>(s.in_channels), Real(0));
  const std::size_t map = s.in_height * s.in_width;
  for (std::size_t c = 0; c < s.in_channels; ++c) {
    for_plane_rows(s, layout, [&](std::size_t from, std::size_t to, std::size_t count) {
      const Real* const x = X + c * map + from;
      Real* const y = planes + c * layout.phases * layout.plane + to;
      if (s.stride == 1) {
        std::memcpy(y, x, count * sizeof(Real));
      } else {
        for (std::size_t j = 0; j < count; ++j) y[j] = x[j * s.stride];
      }
    });
  }
}

// dX = beta dX + the values of the planes. Pixels that no window reaches have no gradient.
template <class Real>
void read_planes(const ConvolutionShape& s, const PlaneLayout& layout, const Real* planes,
                 Real beta, Real* dX) {
  const std::size_t map = s.in_height * s.in_width;
  if (beta == Real(0)) std::fill_n(dX, s.inputs(), Real(0));
  for (std::size_t c = 0; c < s.in_channels; ++c) {
    for_plane_rows(s, layout, [&](std::size_t to, std::size_t from, std::size_t count) {
      const Real* const x = planes + c * layout.phases * layout.plane + from;
      Real* const y = dX + c * map + to;
      for (std::size_t j = 0; j < count; ++j) y[j * s.stride] += x[j];
    });
  }
}

// rows [channels x length] <- output rows first .. first + count of the channels `filters` of one
// sample Y, with zeros in gaps and tail.
template <class Real>
void write_rows(const ConvolutionShape& s, const PlaneLayout& layout, const Real* Y, Range filters,
                std::size_t first, std::size_t count, std::size_t length, Real* rows) {
  for (std::size_t o = filters.begin; o < filters.end; ++o, rows += length) {
    const Real* y = Y + (o * s.out_height + first) * s.out_width;
    std::size_t q = 0;
    for (std::size_t h = 0; h < count; ++h, y += s.out_width, q += layout.pitch) {
      std::memcpy(rows + q, y, s.out_width * sizeof(Real));
      std::fill_n(rows + q + s.out_width, layout.pitch - s.out_width, Real(0));
    }
    std::fill(rows + q, rows + length, Real(0));
  }
}

}  // namespace hetsgd::cpu
