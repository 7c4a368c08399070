// Pooling, ReLU, dropout and operations that join maps, on the CPU: one pass each, split by
// samples, maps or elements.
#include <algorithm>

#include "core/random.hpp"
#include "linalg/cpu/cores.hpp"
#include "linalg/cpu/pool_two_by_two.hpp"
#include "linalg/cpu/simd.hpp"
#include "linalg/image_kernels.hpp"

namespace hetsgd::cpu {

namespace {

// The window of one output pixel along one side: places begin .. end of the input. The first of
// them is place `skipped` of the kernel.
struct Side {
  std::size_t begin, end, skipped;
};
Side side_of(std::size_t out, std::size_t kernel, std::size_t stride, std::size_t padding,
             std::size_t size) {
  const std::size_t low = out * stride;
  const std::size_t skipped = low < padding ? padding - low : 0;
  return {low + skipped - padding, std::min(low + kernel, size + padding) - padding, skipped};
}

// Calls f(output pixel, rows, columns) for the windows of a map.
template <class F>
HETSGD_INLINE void for_windows(const PoolShape& s, F&& f) {
  for (std::size_t oh = 0; oh < s.out_height; ++oh) {
    const Side rows = side_of(oh, s.kernel_height, s.stride, s.padding_height, s.in_height);
    for (std::size_t ow = 0; ow < s.out_width; ++ow) {
      f(oh * s.out_width + ow, rows,
        side_of(ow, s.kernel_width, s.stride, s.padding_width, s.in_width));
    }
  }
}

// Whether `next` replaces `best` as the maximum. NaN is the largest, and the first of equal ones
// stays.
template <class Real>
HETSGD_INLINE bool exceeds(Real next, Real best) {  // without branches
  return static_cast<int>(next > best) |
         (static_cast<int>(next != next) & static_cast<int>(best == best));
}

template <class Real>
void pool_maximum(const PoolShape& s, const Real* x, Real* y, std::uint8_t* index) {
  if (is_two_by_two(s)) return pool_two_by_two(s, x, y, index);
  for_windows(s, [&](std::size_t out, const Side& rows, const Side& columns) {
    Real best = x[rows.begin * s.in_width + columns.begin];
    std::size_t place = rows.skipped * s.kernel_width + columns.skipped;
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (std::size_t w = columns.begin; w < columns.end; ++w) {
        const Real next = x[h * s.in_width + w];
        if (!exceeds(next, best)) continue;
        best = next;
        place =
            (h - rows.begin + rows.skipped) * s.kernel_width + w - columns.begin + columns.skipped;
      }
    }
    y[out] = best;
    if (index) index[out] = static_cast<std::uint8_t>(place);
  });
}

// dx += dy at each window's maximum.
template <class Real>
void spread_maximum(const PoolShape& s, const Real* x, const Real* y, const std::uint8_t* index,
                    const Real* dy, Real* dx) {
  if (index && is_two_by_two(s)) return spread_two_by_two(s, index, dy, false, dx);
  for_windows(s, [&](std::size_t out, const Side& rows, const Side& columns) {
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
Real cells_of(const PoolShape& s, const Side& rows, const Side& columns) {
  return static_cast<Real>(s.count_padding
                               ? s.kernel_height * s.kernel_width
                               : (rows.end - rows.begin) * (columns.end - columns.begin));
}

template <class Real>
void pool_average(const PoolShape& s, const Real* x, Real* y) {
  for_windows(s, [&](std::size_t out, const Side& rows, const Side& columns) {
    Real sum = 0;
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (std::size_t w = columns.begin; w < columns.end; ++w) sum += x[h * s.in_width + w];
    }
    y[out] = sum / cells_of<Real>(s, rows, columns);
  });
}

template <class Real>
void spread_average(const PoolShape& s, const Real* dy, Real* dx) {
  for_windows(s, [&](std::size_t out, const Side& rows, const Side& columns) {
    const Real share = dy[out] / cells_of<Real>(s, rows, columns);
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (std::size_t w = columns.begin; w < columns.end; ++w) dx[h * s.in_width + w] += share;
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
void rectify(std::size_t count, const Real* x, Real* y) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] < Real(0) ? Real(0) : x[i];
}

template <class Real>
void rectify_gradient(std::size_t count, const Real* y, const Real* dy, Real beta, Real* dx) {
  if (beta == Real(0)) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) dx[i] = y[i] <= Real(0) ? Real(0) : dy[i];
  } else {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) {
      dx[i] = beta * dx[i] + (y[i] <= Real(0) ? Real(0) : dy[i]);
    }
  }
}

template <class Real>
void keep_gradient(std::size_t count, Real scale, const std::uint8_t* kept, const Real* dy,
                   Real beta, Real* dx) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const Real d = kept[i] != 0 ? dy[i] * scale : Real(0);
    dx[i] = beta == Real(0) ? d : beta * dx[i] + d;
  }
}

template <class Real>
void add_row(std::size_t count, const Real* x, Real beta, Real* y) {
  if (beta == Real(0)) {
    std::copy_n(x, count, y);
  } else {
    for (std::size_t i = 0; i < count; ++i) y[i] = beta * y[i] + x[i];
  }
}

template <class Real>
class CpuImageKernels final : public BasicImageKernels<Real> {
 public:
  explicit CpuImageKernels(const Cores& cores) : cores_(cores) {}

  void pool(const PoolShape& s, std::size_t n, const Real* X, Real* Y,
            std::uint8_t* index) override {
    const std::size_t in = s.in_height * s.in_width, out = s.out_height * s.out_width;
    const bool at_once = s.maximum && is_two_by_two(s) && covers(s);
    cores_.split(n * s.channels, 1, kWorthACore / in + 1, [&](Range maps) {
      if (at_once) {
        const std::size_t first = maps.begin * out;
        return pool_two_by_two(stacked(s, maps.size()), X + maps.begin * in, Y + first,
                               index ? index + first : nullptr);
      }
      for (std::size_t map = maps.begin; map < maps.end; ++map) {
        if (s.maximum) {
          pool_maximum(s, X + map * in, Y + map * out, index ? index + map * out : nullptr);
        } else {
          pool_average(s, X + map * in, Y + map * out);
        }
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

  void relu(std::size_t count, const Real* X, Real* Y) override {
    cores_.split(count, 16, kWorthACore,
                 [&](Range range) { rectify(range.size(), X + range.begin, Y + range.begin); });
  }

  void relu_gradient(std::size_t count, const Real* Y, const Real* dY, Real beta,
                     Real* dX) override {
    cores_.split(count, 16, kWorthACore, [&](Range range) {
      const std::size_t at = range.begin;
      rectify_gradient(range.size(), Y + at, dY + at, beta, dX + at);
    });
  }

  // Four elements share a block of random words.
  void dropout(std::size_t count, const DropoutKey& key, const Real* X, Real* Y,
               std::uint8_t* mask) override {
    const auto limit = static_cast<std::uint64_t>(key.p * 0x1.0p32);
    const Real scale = static_cast<Real>(1 / (1 - key.p));
    cores_.split(count, 64, kWorthACore / 8, [&](Range range) {
      for (std::size_t i = range.begin; i < range.end; i += 4) {
        const RandomBlock words = random_block(key.seed, Purpose::dropout, key.a, key.b,
                                               static_cast<std::uint32_t>(i / 4));
        for (std::size_t j = i; j < std::min(i + 4, range.end); ++j) {
          const bool kept = words[j - i] >= limit;
          mask[j] = kept ? 1 : 0;
          Y[j] = kept ? X[j] * scale : Real(0);
        }
      }
    });
  }

  void dropout_gradient(std::size_t count, double p, const std::uint8_t* mask, const Real* dY,
                        Real beta, Real* dX) override {
    const Real scale = static_cast<Real>(1 / (1 - p));
    cores_.split(count, 64, kWorthACore, [&](Range range) {
      const std::size_t at = range.begin;
      keep_gradient(range.size(), scale, mask + at, dY + at, beta, dX + at);
    });
  }

  void add_rows(std::size_t rows, std::size_t width, StridedRows<const Real*> from, Real beta,
                StridedRows<Real*> to) override {
    cores_.split(rows, 1, kWorthACore / (width + 1) + 1, [&](Range range) {
      for (std::size_t r = range.begin; r < range.end; ++r) {
        add_row(width, from.first + r * from.stride, beta, to.first + r * to.stride);
      }
    });
  }

  void subsample(std::size_t n, std::size_t in_channels, std::size_t height, std::size_t width,
                 std::size_t out_channels, std::size_t stride, const Real* X, Real* Y) override {
    const std::size_t rows = (height + stride - 1) / stride,
                      columns = (width + stride - 1) / stride;
    cores_.split(n * out_channels, 1, kWorthACore / (rows * columns) + 1, [&](Range maps) {
      for (std::size_t map = maps.begin; map < maps.end; ++map) {
        const std::size_t sample = map / out_channels, c = map % out_channels;
        Real* const y = Y + map * rows * columns;
        if (c >= in_channels) {
          std::fill_n(y, rows * columns, Real(0));
          continue;
        }
        const Real* const x = X + (sample * in_channels + c) * height * width;
        for (std::size_t h = 0; h < rows; ++h) {
          for (std::size_t w = 0; w < columns; ++w) {
            y[h * columns + w] = x[h * stride * width + w * stride];
          }
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

const RegisterKernels<Cores, BasicImageKernels, CpuImageKernels> image_kernels;

}  // namespace

}  // namespace hetsgd::cpu
