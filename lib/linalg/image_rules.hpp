// The work of the image kernels on one element or pixel of the result, on the host and on GPUs
// alike, and the kernels that are no more than that (image_kernels.hpp has the shapes).
//
// Free of fmt and of C++20: CUDA sources include this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/host_device.hpp"
#include "core/philox.hpp"
#include "linalg/image_kernels.hpp"

namespace hetsgd {

// The window of an output pixel along one side: places begin .. end of the input. The first of them
// is place `skipped` of the kernel.
struct WindowSide {
  std::size_t begin, end, skipped;
};
HETSGD_HOST_DEVICE inline WindowSide window_side(std::size_t out, std::size_t kernel,
                                                 std::size_t stride, std::size_t padding,
                                                 std::size_t size) {
  const std::size_t low = out * stride, high = low + kernel;
  const std::size_t skipped = low < padding ? padding - low : 0;
  return {low + skipped - padding, (high < size + padding ? high : size + padding) - padding,
          skipped};
}

HETSGD_HOST_DEVICE inline WindowSide window_rows(const PoolShape& s, std::size_t oh) {
  return window_side(oh, s.kernel_height, s.stride, s.padding_height, s.in_height);
}
HETSGD_HOST_DEVICE inline WindowSide window_columns(const PoolShape& s, std::size_t ow) {
  return window_side(ow, s.kernel_width, s.stride, s.padding_width, s.in_width);
}

// The place of input pixel (h, w) in the kernel of such a window, row by row.
HETSGD_HOST_DEVICE inline std::size_t window_place(const PoolShape& s, const WindowSide& rows,
                                                   const WindowSide& columns, std::size_t h,
                                                   std::size_t w) {
  return (h - rows.begin + rows.skipped) * s.kernel_width + w - columns.begin + columns.skipped;
}
// The number that an average divides by.
template <class Real>
HETSGD_HOST_DEVICE Real window_cells(const PoolShape& s, const WindowSide& rows,
                                     const WindowSide& columns) {
  return static_cast<Real>(s.count_padding
                               ? s.kernel_height * s.kernel_width
                               : (rows.end - rows.begin) * (columns.end - columns.begin));
}

struct SubsampleShape {
  std::size_t in_channels, height, width, out_channels, stride;
  std::size_t rows = (height + stride - 1) / stride, columns = (width + stride - 1) / stride;
};

namespace rule {

// NaN is the largest, and the first of equal ones stays.
template <class Real>
struct PoolMaximum {
  PoolShape s;
  const Real* X;
  Real* Y;
  std::uint8_t* index;
  HETSGD_HOST_DEVICE void operator()(std::size_t map, std::size_t oh, std::size_t ow) const {
    const WindowSide rows = window_rows(s, oh), columns = window_columns(s, ow);
    const Real* const x = X + map * s.in_height * s.in_width;
    std::size_t h0 = rows.begin, w0 = columns.begin;
    Real best = x[h0 * s.in_width + w0];
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (std::size_t w = columns.begin; w < columns.end; ++w) {
        const Real next = x[h * s.in_width + w];
        if (!(next > best || (next != next && best == best))) continue;
        best = next;
        h0 = h;
        w0 = w;
      }
    }
    const std::size_t at = (map * s.out_height + oh) * s.out_width + ow;
    Y[at] = best;
    if (index != nullptr)
      index[at] = static_cast<std::uint8_t>(window_place(s, rows, columns, h0, w0));
  }
};

template <class Real>
struct PoolAverage {
  PoolShape s;
  const Real* X;
  Real* Y;
  HETSGD_HOST_DEVICE void operator()(std::size_t map, std::size_t oh, std::size_t ow) const {
    const WindowSide rows = window_rows(s, oh), columns = window_columns(s, ow);
    const Real* const x = X + map * s.in_height * s.in_width;
    Real sum = 0;
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (std::size_t w = columns.begin; w < columns.end; ++w) {
        sum += x[h * s.in_width + w];
      }
    }
    Y[(map * s.out_height + oh) * s.out_width + ow] = sum / window_cells<Real>(s, rows, columns);
  }
};

template <class Real>
struct Relu {
  const Real* X;
  Real* Y;
  HETSGD_HOST_DEVICE void operator()(std::size_t, std::size_t i) const {
    Y[i] = X[i] < Real(0) ? Real(0) : X[i];
  }
};

template <class Real>
struct ReluBack {
  const Real* Y;
  const Real* dY;
  Real beta;
  Real* dX;
  HETSGD_HOST_DEVICE void operator()(std::size_t, std::size_t i) const {
    const Real d = Y[i] <= Real(0) ? Real(0) : dY[i];
    dX[i] = beta == Real(0) ? d : beta * dX[i] + d;
  }
};

// Block i of four elements, which share a block of random words.
template <class Real>
struct Dropout {
  std::size_t count;
  DropoutKey key;
  const Real* X;
  Real* Y;
  std::uint8_t* mask;
  std::uint64_t limit = static_cast<std::uint64_t>(key.p * 0x1.0p32);
  Real scale = static_cast<Real>(1 / (1 - key.p));
  HETSGD_HOST_DEVICE void operator()(std::size_t, std::size_t i) const {
    const PhiloxWords words =
        philox_words(key.seed, Purpose::dropout, key.a, key.b, static_cast<std::uint32_t>(i));
    const std::size_t first = 4 * i, end = first + 4 < count ? first + 4 : count;
    for (std::size_t j = first; j < end; ++j) {
      const bool kept = words.at[j - first] >= limit;
      mask[j] = kept ? 1 : 0;
      Y[j] = kept ? X[j] * scale : Real(0);
    }
  }
};

template <class Real>
struct DropoutBack {
  Real scale;
  const std::uint8_t* mask;
  const Real* dY;
  Real beta;
  Real* dX;
  HETSGD_HOST_DEVICE void operator()(std::size_t, std::size_t i) const {
    const Real d = mask[i] != 0 ? dY[i] * scale : Real(0);
    dX[i] = beta == Real(0) ? d : beta * dX[i] + d;
  }
};

template <class Real>
struct AddStridedRows {
  StridedRows<const Real*> from;
  Real beta;
  StridedRows<Real*> to;
  HETSGD_HOST_DEVICE void operator()(std::size_t r, std::size_t i) const {
    const Real x = from.first[r * from.stride + i];
    Real& y = to.first[r * to.stride + i];
    y = beta == Real(0) ? x : beta * y + x;
  }
};

template <class Real>
struct Subsample {
  SubsampleShape s;
  const Real* X;
  Real* Y;
  HETSGD_HOST_DEVICE void operator()(std::size_t map, std::size_t h, std::size_t w) const {
    const std::size_t sample = map / s.out_channels, c = map % s.out_channels;
    const Real* const x = X + (sample * s.in_channels + c) * s.height * s.width;
    Y[(map * s.rows + h) * s.columns + w] =
        c < s.in_channels ? x[(h * s.width + w) * s.stride] : Real(0);
  }
};

}  // namespace rule

// The kernels that all backends share; ParallelFor is that of one backend. Gradients of pooling and
// of subsampling are missing: a CPU adds an output's gradient to its inputs, and a GPU, no two of
// whose threads may add to one place, adds up an input's gradient from its outputs.
template <class Real, class ParallelFor>
class ImageKernels : public BasicImageKernels<Real> {
 public:
  explicit ImageKernels(typename ParallelFor::Owner& owner) : parallel_for_(owner) {}

  void pool(const PoolShape& s, std::size_t n, const Real* X, Real* Y,
            std::uint8_t* index) override {
    const std::size_t maps = n * s.channels, cost = s.kernel_height * s.kernel_width;
    if (s.maximum) {
      parallel_for_.pixels(maps, s.out_height, s.out_width, rule::PoolMaximum<Real>{s, X, Y, index},
                           "kernel pool_maximum", cost);
    } else {
      parallel_for_.pixels(maps, s.out_height, s.out_width, rule::PoolAverage<Real>{s, X, Y},
                           "kernel pool_average", cost);
    }
  }

  void relu(std::size_t count, const Real* X, Real* Y) override {
    parallel_for_.rows(1, count, rule::Relu<Real>{X, Y}, "kernel relu");
  }
  void relu_gradient(std::size_t count, const Real* Y, const Real* dY, Real beta,
                     Real* dX) override {
    parallel_for_.rows(1, count, rule::ReluBack<Real>{Y, dY, beta, dX}, "kernel relu_gradient");
  }

  void dropout(std::size_t count, const DropoutKey& key, const Real* X, Real* Y,
               std::uint8_t* mask) override {
    parallel_for_.rows(1, (count + 3) / 4, rule::Dropout<Real>{count, key, X, Y, mask},
                       "kernel dropout", 32);
  }
  void dropout_gradient(std::size_t count, double p, const std::uint8_t* mask, const Real* dY,
                        Real beta, Real* dX) override {
    const Real scale = static_cast<Real>(1 / (1 - p));
    parallel_for_.rows(1, count, rule::DropoutBack<Real>{scale, mask, dY, beta, dX},
                       "kernel dropout_gradient");
  }

  void add_rows(std::size_t rows, std::size_t width, StridedRows<const Real*> from, Real beta,
                StridedRows<Real*> to) override {
    parallel_for_.rows(rows, width, rule::AddStridedRows<Real>{from, beta, to}, "kernel add_rows");
  }

  void subsample(std::size_t n, std::size_t in_channels, std::size_t height, std::size_t width,
                 std::size_t out_channels, std::size_t stride, const Real* X, Real* Y) override {
    const SubsampleShape s{in_channels, height, width, out_channels, stride};
    parallel_for_.pixels(n * out_channels, s.rows, s.columns, rule::Subsample<Real>{s, X, Y},
                         "kernel subsample");
  }

 protected:
  ParallelFor parallel_for_;
};

}  // namespace hetsgd
