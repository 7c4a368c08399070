// The gradients of the image kernels that have a way of their own on a GPU. Each element of the
// result has a thread, so that no two threads add to one place and every sum has one order.
#include <cstdint>

#include "linalg/cuda/block.cuh"
#include "linalg/image_rules.hpp"

namespace hetsgd::cuda {

namespace {

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

  // Whether place (h, w) is the maximum of the window of output pixel `at`.
  __device__ bool is_maximum(std::size_t map, std::size_t at, const WindowSide& rows,
                             const WindowSide& columns, std::size_t h, std::size_t w) const {
    if (index != nullptr) return index[at] == window_place(s, rows, columns, h, w);
    const Real* const x = X + map * s.in_height * s.in_width;
    for (std::size_t i = rows.begin; i <= h; ++i) {
      for (std::size_t j = columns.begin; j < columns.end; ++j) {
        const Real here = x[i * s.in_width + j];
        if (here == Y[at] || (here != here && Y[at] != Y[at])) return i == h && j == w;
      }
    }
    return false;
  }
  __device__ void operator()(std::size_t map, std::size_t h, std::size_t w) const {
    const OutputSide rows =
        outputs_with(h, s.kernel_height, s.stride, s.padding_height, s.out_height);
    const OutputSide columns =
        outputs_with(w, s.kernel_width, s.stride, s.padding_width, s.out_width);
    Real sum = 0;
    for (std::size_t oh = rows.first; oh < rows.last; ++oh) {
      for (std::size_t ow = columns.first; ow < columns.last; ++ow) {
        const std::size_t at = (map * s.out_height + oh) * s.out_width + ow;
        const WindowSide above = window_rows(s, oh), beside = window_columns(s, ow);
        if (!s.maximum) {
          sum += dY[at] / window_cells<Real>(s, above, beside);
        } else if (is_maximum(map, at, above, beside, h, w)) {
          sum += dY[at];
        }
      }
    }
    Real& to = dX[(map * s.in_height + h) * s.in_width + w];
    to = beta == Real(0) ? sum : beta * to + sum;
  }
};

template <class Real>
struct SubsampleBack {
  SubsampleShape s;
  const Real* dY;
  Real beta;
  Real* dX;
  __device__ void operator()(std::size_t map, std::size_t h, std::size_t w) const {
    const std::size_t sample = map / s.in_channels, c = map % s.in_channels;
    Real d = 0;
    if (c < s.out_channels && h % s.stride == 0 && w % s.stride == 0) {
      d = dY[((sample * s.out_channels + c) * s.rows + h / s.stride) * s.columns + w / s.stride];
    }
    Real& to = dX[(map * s.height + h) * s.width + w];
    to = beta == Real(0) ? d : beta * to + d;
  }
};

template <class Real>
class CudaImageKernels final : public ImageKernels<Real, ParallelFor> {
  using Shared = ImageKernels<Real, ParallelFor>;

 public:
  using Shared::Shared;

  void pool_gradient(const PoolShape& s, std::size_t n, const Real* X, const Real* Y,
                     const std::uint8_t* index, const Real* dY, Real beta, Real* dX) override {
    this->parallel_for_.pixels(n * s.channels, s.in_height, s.in_width,
                               PoolGradient<Real>{s, X, Y, index, dY, beta, dX},
                               "kernel pool_gradient");
  }

  void subsample_gradient(std::size_t n, std::size_t in_channels, std::size_t height,
                          std::size_t width, std::size_t out_channels, std::size_t stride,
                          const Real* dY, Real beta, Real* dX) override {
    const SubsampleShape s{in_channels, height, width, out_channels, stride};
    this->parallel_for_.pixels(n * in_channels, height, width, SubsampleBack<Real>{s, dY, beta, dX},
                               "kernel subsample_gradient");
  }
};

const RegisterKernels<Backend, BasicImageKernels, CudaImageKernels> image_kernels;

}  // namespace

}  // namespace hetsgd::cuda
