// The image kernels of the CPU that have a way of its own: pooling two by two, and gradients that
// add what an output pixel has to its input pixels. They are split by maps.
#include <algorithm>

#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/pool_two_by_two.hpp"
#include "linalg/cpu/simd.hpp"
#include "linalg/image_rules.hpp"

namespace hetsgd::cpu {

namespace {

// Calls f(output pixel, rows, columns) for the windows of a map.
template <class F>
HETSGD_INLINE void for_windows(const PoolShape& s, F&& f) {
  for (std::size_t oh = 0; oh < s.out_height; ++oh) {
    const WindowSide rows = window_rows(s, oh);
    for (std::size_t ow = 0; ow < s.out_width; ++ow) {
      f(oh * s.out_width + ow, rows, window_columns(s, ow));
    }
  }
}

// dx += dy at each window's maximum.
template <class Real>
void spread_maximum(const PoolShape& s, const Real* x, const Real* y, const std::uint8_t* index,
                    const Real* dy, Real* dx) {
  if (index && is_two_by_two(s)) return spread_two_by_two(s, index, dy, false, dx);
  for_windows(s, [&](std::size_t out, const WindowSide& rows, const WindowSide& columns) {
    if (index) {
      const std::size_t h = index[out] / s.kernel_width, w = index[out] % s.kernel_width;
      dx[(rows.begin + h - rows.skipped) * s.in_width + columns.begin + w - columns.skipped] +=
          dy[out];
      return;
    }
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (std::size_t w = columns.begin; w < columns.end; ++w) {
        const Real here = x[h * s.in_width + w];
        if (here != y[out] && !(here != here && y[out] != y[out])) continue;
        dx[h * s.in_width + w] += dy[out];
        return;
      }
    }
  });
}

template <class Real>
void spread_average(const PoolShape& s, const Real* dy, Real* dx) {
  for_windows(s, [&](std::size_t out, const WindowSide& rows, const WindowSide& columns) {
    const Real share = dy[out] / window_cells<Real>(s, rows, columns);
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (std::size_t w = columns.begin; w < columns.end; ++w) {
        dx[h * s.in_width + w] += share;
      }
    }
  });
}

template <class Real>
void scale_map(std::size_t count, Real beta, Real* dx) {
  if (beta == Real(0)) {
    std::fill_n(dx, count, Real(0));
  } else if (beta != Real(1)) {
    for (std::size_t i = 0; i < count; ++i) dx[i] *= beta;
  }
}

template <class Real>
class CpuImageKernels final : public ImageKernels<Real, ParallelFor> {
  using Shared = ImageKernels<Real, ParallelFor>;

 public:
  explicit CpuImageKernels(const Cores& cores) : Shared(cores), cores_(cores) {}

  void pool(const PoolShape& s, std::size_t n, const Real* X, Real* Y,
            std::uint8_t* index) override {
    if (!s.maximum || !is_two_by_two(s)) return Shared::pool(s, n, X, Y, index);
    const std::size_t in = s.in_height * s.in_width, out = s.out_height * s.out_width;
    const std::size_t at_once = covers(s) ? n * s.channels : 1;  // maps
    cores_.split(n * s.channels, 1, kWorthACore / in + 1, [&](Range maps) {
      for (std::size_t map = maps.begin; map < maps.end; map += at_once) {
        const std::size_t count = std::min(at_once, maps.end - map);
        pool_two_by_two(stacked(s, count), X + map * in, Y + map * out,
                        index ? index + map * out : nullptr);
      }
    });
  }

  void pool_gradient(const PoolShape& s, std::size_t n, const Real* X, const Real* Y,
                     const std::uint8_t* index, const Real* dY, Real beta, Real* dX) override {
    const std::size_t in = s.in_height * s.in_width, out = s.out_height * s.out_width;
    const bool at_once = s.maximum && index && beta == Real(0) && is_two_by_two(s) && covers(s);
    cores_.split(n * s.channels, 1, kWorthACore / in + 1, [&](Range maps) {
      if (at_once) {
        const std::size_t first = maps.begin * out;
        return spread_two_by_two(stacked(s, maps.size()), index + first, dY + first, true,
                                 dX + maps.begin * in);
      }
      for (std::size_t map = maps.begin; map < maps.end; ++map) {
        Real* const dx = dX + map * in;
        scale_map(in, beta, dx);
        if (!s.maximum) {
          spread_average(s, dY + map * out, dx);
        } else if (index) {
          spread_maximum<Real>(s, nullptr, nullptr, index + map * out, dY + map * out, dx);
        } else {
          spread_maximum<Real>(s, X + map * in, Y + map * out, nullptr, dY + map * out, dx);
        }
      }
    });
  }

  void subsample_gradient(std::size_t n, std::size_t in_channels, std::size_t height,
                          std::size_t width, std::size_t out_channels, std::size_t stride,
                          const Real* dY, Real beta, Real* dX) override {
    const std::size_t rows = (height + stride - 1) / stride,
                      columns = (width + stride - 1) / stride;
    cores_.split(n * in_channels, 1, kWorthACore / (height * width) + 1, [&](Range maps) {
      for (std::size_t map = maps.begin; map < maps.end; ++map) {
        const std::size_t sample = map / in_channels, c = map % in_channels;
        Real* const dx = dX + map * height * width;
        scale_map(height * width, beta, dx);
        if (c >= out_channels) continue;
        const Real* const dy = dY + (sample * out_channels + c) * rows * columns;
        for (std::size_t h = 0; h < rows; ++h) {
          for (std::size_t w = 0; w < columns; ++w) {
            dx[h * stride * width + w * stride] += dy[h * columns + w];
          }
        }
      }
    });
  }

 private:
  const Cores& cores_;
};

const RegisterKernels<Backend, BasicImageKernels, CpuImageKernels> image_kernels;

}  // namespace

}  // namespace hetsgd::cpu
