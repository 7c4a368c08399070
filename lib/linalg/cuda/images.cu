// Pooling, ReLU, dropout and operations that join maps, on a GPU. Each element of the result has a
// thread, so that no two threads add to one place and every sum has one order.
#include <cstdint>

#include "core/philox.hpp"
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/image_kernels.hpp"

namespace hetsgd::cuda {

namespace {

// The window of an output along one side: places begin .. end of the input. The first of them is
// place `skipped` of the kernel.
struct WindowSide {
  std::size_t begin, end, skipped;
};
__device__ inline WindowSide window_side(std::size_t out, std::size_t kernel, std::size_t stride,
                                         std::size_t padding, std::size_t size) {
  const std::size_t low = out * stride, skipped = low < padding ? padding - low : 0;
  return {low + skipped - padding, smaller(low + kernel, size + padding) - padding, skipped};
}
struct Window {
  WindowSide rows, columns;
};
__device__ inline Window window_of(const PoolShape& s, std::size_t out) {
  return {window_side(out / s.out_width, s.kernel_height, s.stride, s.padding_height, s.in_height),
          window_side(out % s.out_width, s.kernel_width, s.stride, s.padding_width, s.in_width)};
}
template <class Real>
__device__ Real cells_of(const PoolShape& s, const Window& w) {
  return static_cast<Real>(s.count_padding
                               ? s.kernel_height * s.kernel_width
                               : (w.rows.end - w.rows.begin) * (w.columns.end - w.columns.begin));
}

template <class Real>
struct PoolMaximum {
  PoolShape s;
  const Real* X;
  Real* Y;
  std::uint8_t* index;
  __device__ void operator()(std::size_t map, std::size_t out) const {
    const Window window = window_of(s, out);
    const Real* const x = X + map * s.in_height * s.in_width;
    Real best = x[window.rows.begin * s.in_width + window.columns.begin];
    std::size_t h0 = window.rows.begin, w0 = window.columns.begin;
    for (std::size_t h = window.rows.begin; h < window.rows.end; ++h) {
      for (std::size_t w = window.columns.begin; w < window.columns.end; ++w) {
        const Real next = x[h * s.in_width + w];
        if (!(next > best || (next != next && best == best))) continue;
        best = next;
        h0 = h;
        w0 = w;
      }
    }
    const std::size_t at = map * s.out_height * s.out_width + out;
    Y[at] = best;
    if (index == nullptr) return;
    index[at] =
        static_cast<std::uint8_t>((h0 - window.rows.begin + window.rows.skipped) * s.kernel_width +
                                  w0 - window.columns.begin + window.columns.skipped);
  }
};

template <class Real>
struct PoolAverage {
  PoolShape s;
  const Real* X;
  Real* Y;
  __device__ void operator()(std::size_t map, std::size_t out) const {
    const Window window = window_of(s, out);
    const Real* const x = X + map * s.in_height * s.in_width;
    Real sum = 0;
    for (std::size_t h = window.rows.begin; h < window.rows.end; ++h) {
      for (std::size_t w = window.columns.begin; w < window.columns.end; ++w) {
        sum += x[h * s.in_width + w];
      }
    }
    Y[map * s.out_height * s.out_width + out] = sum / cells_of<Real>(s, window);
  }
};

// The outputs along one side whose windows may contain place `at`: first .. last, last excluded.
struct OutputSide {
  std::size_t first, last;
};
__device__ inline OutputSide outputs_with(std::size_t at, std::size_t kernel, std::size_t stride,
                                          std::size_t padding, std::size_t size) {
  const std::size_t place = at + padding;
  return {place < kernel ? 0 : (place - kernel) / stride + 1, smaller(place / stride + 1, size)};
}

// dX at a place: the sum over the windows that contain it, in their order.
template <class Real>
struct PoolGradient {
  PoolShape s;
  const Real* X;
  const Real* Y;
  const std::uint8_t* index;
  const Real* dY;
  Real beta;
  Real* dX;

  // Whether place (h, w) is the maximum of the window of output `out`.
  __device__ bool is_maximum(std::size_t map, std::size_t out, const Window& window, std::size_t h,
                             std::size_t w) const {
    const std::size_t at = map * s.out_height * s.out_width + out;
    if (index != nullptr) {
      return index[at] == (h - window.rows.begin + window.rows.skipped) * s.kernel_width + w -
                              window.columns.begin + window.columns.skipped;
    }
    const Real* const x = X + map * s.in_height * s.in_width;
    for (std::size_t i = window.rows.begin; i <= h; ++i) {
      for (std::size_t j = window.columns.begin; j < window.columns.end; ++j) {
        const Real here = x[i * s.in_width + j];
        if (here == Y[at] || (here != here && Y[at] != Y[at])) return i == h && j == w;
      }
    }
    return false;
  }
  __device__ void operator()(std::size_t map, std::size_t at) const {
    const std::size_t h = at / s.in_width, w = at % s.in_width;
    const OutputSide rows =
        outputs_with(h, s.kernel_height, s.stride, s.padding_height, s.out_height);
    const OutputSide columns =
        outputs_with(w, s.kernel_width, s.stride, s.padding_width, s.out_width);
    Real sum = 0;
    for (std::size_t oh = rows.first; oh < rows.last; ++oh) {
      for (std::size_t ow = columns.first; ow < columns.last; ++ow) {
        const std::size_t out = oh * s.out_width + ow;
        const Window window = window_of(s, out);
        const Real d = dY[map * s.out_height * s.out_width + out];
        if (!s.maximum) {
          sum += d / cells_of<Real>(s, window);
        } else if (is_maximum(map, out, window, h, w)) {
          sum += d;
        }
      }
    }
    Real& to = dX[map * s.in_height * s.in_width + at];
    to = beta == Real(0) ? sum : beta * to + sum;
  }
};

template <class Real>
struct Relu {
  const Real* X;
  Real* Y;
  __device__ void operator()(std::size_t, std::size_t i) const {
    Y[i] = X[i] < Real(0) ? Real(0) : X[i];
  }
};

template <class Real>
struct ReluBack {
  const Real* Y;
  const Real* dY;
  Real beta;
  Real* dX;
  __device__ void operator()(std::size_t, std::size_t i) const {
    const Real d = Y[i] <= Real(0) ? Real(0) : dY[i];
    dX[i] = beta == Real(0) ? d : beta * dX[i] + d;
  }
};

// Four elements share a block of random words.
template <class Real>
struct Dropout {
  std::size_t count;
  DropoutKey key;
  std::uint64_t limit;
  Real scale;
  const Real* X;
  Real* Y;
  std::uint8_t* mask;
  __device__ void operator()(std::size_t, std::size_t block) const {
    const PhiloxWords words =
        philox_words(key.seed, Purpose::dropout, key.a, key.b, static_cast<std::uint32_t>(block));
    for (std::size_t i = block * 4; i < smaller(block * 4 + 4, count); ++i) {
      const bool kept = words.at[i % 4] >= limit;
      mask[i] = kept ? 1 : 0;
      Y[i] = kept ? X[i] * scale : Real(0);
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
  __device__ void operator()(std::size_t, std::size_t i) const {
    const Real d = mask[i] != 0 ? dY[i] * scale : Real(0);
    dX[i] = beta == Real(0) ? d : beta * dX[i] + d;
  }
};

template <class Real>
struct AddStridedRows {
  StridedRows<const Real*> from;
  Real beta;
  StridedRows<Real*> to;
  __device__ void operator()(std::size_t r, std::size_t i) const {
    const Real x = from.first[r * from.stride + i];
    Real& y = to.first[r * to.stride + i];
    y = beta == Real(0) ? x : beta * y + x;
  }
};

struct SubsampleShape {
  std::size_t in_channels, height, width, out_channels, stride;
  HETSGD_HOST_DEVICE std::size_t rows() const { return (height + stride - 1) / stride; }
  HETSGD_HOST_DEVICE std::size_t columns() const { return (width + stride - 1) / stride; }
};

template <class Real>
struct Subsample {
  SubsampleShape s;
  const Real* X;
  Real* Y;
  __device__ void operator()(std::size_t map, std::size_t at) const {
    const std::size_t sample = map / s.out_channels, c = map % s.out_channels;
    const std::size_t h = at / s.columns(), w = at % s.columns();
    const std::size_t from = (sample * s.in_channels + c) * s.height * s.width;
    Y[map * s.rows() * s.columns() + at] =
        c < s.in_channels ? X[from + (h * s.width + w) * s.stride] : Real(0);
  }
};

template <class Real>
struct SubsampleBack {
  SubsampleShape s;
  const Real* dY;
  Real beta;
  Real* dX;
  __device__ void operator()(std::size_t map, std::size_t at) const {
    const std::size_t sample = map / s.in_channels, c = map % s.in_channels;
    const std::size_t h = at / s.width, w = at % s.width;
    Real d = 0;
    if (c < s.out_channels && h % s.stride == 0 && w % s.stride == 0) {
      d = dY[((sample * s.out_channels + c) * s.rows() + h / s.stride) * s.columns() +
             w / s.stride];
    }
    Real& to = dX[map * s.height * s.width + at];
    to = beta == Real(0) ? d : beta * to + d;
  }
};

template <class Real>
class CudaImageKernels final : public BasicImageKernels<Real> {
 public:
  explicit CudaImageKernels(Backend& backend) : backend_(backend) {}

  void pool(const PoolShape& s, std::size_t n, const Real* X, Real* Y,
            std::uint8_t* index) override {
    const std::size_t maps = n * s.channels, outputs = s.out_height * s.out_width;
    if (s.maximum) {
      each(maps, outputs, PoolMaximum<Real>{s, X, Y, index}, "kernel pool_maximum");
    } else {
      each(maps, outputs, PoolAverage<Real>{s, X, Y}, "kernel pool_average");
    }
  }
  void pool_gradient(const PoolShape& s, std::size_t n, const Real* X, const Real* Y,
                     const std::uint8_t* index, const Real* dY, Real beta, Real* dX) override {
    each(n * s.channels, s.in_height * s.in_width, PoolGradient<Real>{s, X, Y, index, dY, beta, dX},
         "kernel pool_gradient");
  }

  void relu(std::size_t count, const Real* X, Real* Y) override {
    each(1, count, Relu<Real>{X, Y}, "kernel relu");
  }
  void relu_gradient(std::size_t count, const Real* Y, const Real* dY, Real beta,
                     Real* dX) override {
    each(1, count, ReluBack<Real>{Y, dY, beta, dX}, "kernel relu_gradient");
  }

  void dropout(std::size_t count, const DropoutKey& key, const Real* X, Real* Y,
               std::uint8_t* mask) override {
    each(1, ceil_divide(count, 4),
         Dropout<Real>{count, key, static_cast<std::uint64_t>(key.p * 0x1.0p32),
                       static_cast<Real>(1 / (1 - key.p)), X, Y, mask},
         "kernel dropout");
  }
  void dropout_gradient(std::size_t count, double p, const std::uint8_t* mask, const Real* dY,
                        Real beta, Real* dX) override {
    each(1, count, DropoutBack<Real>{static_cast<Real>(1 / (1 - p)), mask, dY, beta, dX},
         "kernel dropout_gradient");
  }

  void add_rows(std::size_t rows, std::size_t width, StridedRows<const Real*> from, Real beta,
                StridedRows<Real*> to) override {
    each(rows, width, AddStridedRows<Real>{from, beta, to}, "kernel add_rows");
  }

  void subsample(std::size_t n, std::size_t in_channels, std::size_t height, std::size_t width,
                 std::size_t out_channels, std::size_t stride, const Real* X, Real* Y) override {
    const SubsampleShape s{in_channels, height, width, out_channels, stride};
    each(n * out_channels, s.rows() * s.columns(), Subsample<Real>{s, X, Y}, "kernel subsample");
  }
  void subsample_gradient(std::size_t n, std::size_t in_channels, std::size_t height,
                          std::size_t width, std::size_t out_channels, std::size_t stride,
                          const Real* dY, Real beta, Real* dX) override {
    const SubsampleShape s{in_channels, height, width, out_channels, stride};
    each(n * in_channels, height * width, SubsampleBack<Real>{s, dY, beta, dX},
         "kernel subsample_gradient");
  }

 private:
  template <class F>
  void each(std::size_t rows, std::size_t n, const F& f, const char* name) const {
    launch_rowwise(backend_.use(), rows, n, f, name);
  }

  Backend& backend_;
};

const RegisterKernels<Backend, BasicImageKernels, CudaImageKernels> image_kernels;

}  // namespace

}  // namespace hetsgd::cuda
