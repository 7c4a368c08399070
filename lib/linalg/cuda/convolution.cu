// The convolution kernels of a GPU: windows copied out (im2col) and a product by cuBLAS, for as
// many samples at once as fit into kRoomBytes. They are the reference for others
// (cudnn_convolution.cpp), and the default unless cuDNN is requested. The bits of a run must not
// depend on whether a library happens to be installed.
//
//   windows  C [depth x q], q = samples x output pixels: element (k, q) is what weight k of a
//            filter meets at output q
//   forward             S [filters x q] = W C, then S + bias to the maps of Y
//   input gradient      C = W^T S, S from the maps of dY; each input adds up its windows
//   parameter gradient  G = alpha S C^T + beta G
//
// Sizes determine the order of all additions, so the bits do not depend on addresses.
#include <algorithm>

#include "linalg/convolution_kernels.hpp"
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/cudnn.hpp"
#include "linalg/cuda/resources.hpp"

namespace hetsgd::cuda {

namespace {

constexpr std::size_t kRoomBytes = std::size_t{256} << 20;  // for windows, and the same for sums

// One group of channels and filters, of some samples.
struct GroupShape {
  ConvolutionShape s;
  std::size_t group, samples;
  HETSGD_HOST_DEVICE std::size_t channels() const { return s.in_channels / s.groups; }
  HETSGD_HOST_DEVICE std::size_t filters() const { return s.out_channels / s.groups; }
  HETSGD_HOST_DEVICE std::size_t pixels() const { return s.out_height * s.out_width; }
  HETSGD_HOST_DEVICE std::size_t columns() const { return samples * pixels(); }
  HETSGD_HOST_DEVICE std::size_t depth() const {
    return channels() * s.kernel_height * s.kernel_width;
  }
  // The places of output q of filter o, and of channel c of a sample, in their maps.
  HETSGD_HOST_DEVICE std::size_t output_at(std::size_t o, std::size_t q) const {
    const auto at = static_cast<unsigned>(q), each = static_cast<unsigned>(pixels());
    return (at / each * s.out_channels + group * filters() + o) * each + at % each;
  }
  HETSGD_HOST_DEVICE std::size_t map_at(std::size_t sample, std::size_t c) const {
    return (sample * s.in_channels + group * channels() + c) * s.in_height * s.in_width;
  }
};

// C [depth x columns] <- the windows of X. Element (k, q) is the value that weight k of a filter
// meets at output q, 0 around the maps.
template <class Real>
struct CopyWindows {
  GroupShape g;
  const Real* X;
  Real* windows;
  __device__ void operator()(std::size_t k, std::size_t q) const {
    const auto weight = static_cast<unsigned>(k), at = static_cast<unsigned>(q);
    const auto kh = static_cast<unsigned>(g.s.kernel_height),
               kw = static_cast<unsigned>(g.s.kernel_width);
    const auto width = static_cast<unsigned>(g.s.out_width),
               pixels = static_cast<unsigned>(g.pixels());
    // Places around the map are beyond its end, also those before its beginning, because they wrap
    // around.
    const std::size_t h = at % pixels / width * g.s.stride + weight / kw % kh - g.s.padding_height;
    const std::size_t w = at % width * g.s.stride + weight % kw - g.s.padding_width;
    const bool inside = h < g.s.in_height && w < g.s.in_width;
    const std::size_t map = g.map_at(at / pixels, weight / (kw * kh));
    windows[k * g.columns() + q] = inside ? X[map + h * g.s.in_width + w] : Real(0);
  }
};

// dX <- beta dX + for each input the sum of the elements of C that hold it, in the order of
// weights. Input pixel `at` of channel c of a sample is in row sample * channels + c. Weight row i
// connects an input row with the output row for which stride * row + i = h + padding.
template <class Real>
struct AddWindows {
  GroupShape g;
  const Real* windows;
  Real beta;
  Real* dX;
  __device__ void operator()(std::size_t row, std::size_t at) const {
    const std::size_t sample = row / g.channels(), c = row % g.channels();
    const std::size_t h = at / g.s.in_width + g.s.padding_height,
                      w = at % g.s.in_width + g.s.padding_width;
    Real sum = 0;
    for (std::size_t i = 0; i < g.s.kernel_height; ++i) {
      if (h < i || (h - i) % g.s.stride != 0 || (h - i) / g.s.stride >= g.s.out_height) continue;
      for (std::size_t j = 0; j < g.s.kernel_width; ++j) {
        if (w < j || (w - j) % g.s.stride != 0 || (w - j) / g.s.stride >= g.s.out_width) continue;
        const std::size_t k = (c * g.s.kernel_height + i) * g.s.kernel_width + j;
        const std::size_t q =
            sample * g.pixels() + (h - i) / g.s.stride * g.s.out_width + (w - j) / g.s.stride;
        sum += windows[k * g.columns() + q];
      }
    }
    Real& to = dX[g.map_at(sample, c) + at];
    to = beta == Real(0) ? sum : beta * to + sum;
  }
};

// The maps of Y <- S [filters x columns] + bias, by filter; bias may be null. MapsToSums does the
// reverse.
template <class Real>
struct SumsToMaps {
  GroupShape g;
  const Real* sums;
  const Real* bias;
  Real* Y;
  __device__ void operator()(std::size_t o, std::size_t q) const {
    const Real sum = sums[o * g.columns() + q];
    Y[g.output_at(o, q)] = bias != nullptr ? sum + bias[g.group * g.filters() + o] : sum;
  }
};

template <class Real>
struct MapsToSums {
  GroupShape g;
  const Real* dY;
  Real* sums;
  __device__ void operator()(std::size_t o, std::size_t q) const {
    sums[o * g.columns() + q] = dY[g.output_at(o, q)];
  }
};

// to[row] <- beta to[row] + alpha (the sum of row `row` of x [rows x columns]), added in double in
// a fixed order. Each row has a block of threads.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    add_up_rows_kernel(std::size_t rows, std::size_t columns, const Real* __restrict__ x,
                       Real alpha, Real beta, Real* __restrict__ to) {
  __shared__ double scratch[kWarps];
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    double sum = 0;
    for (std::size_t j = threadIdx.x; j < columns; j += kThreads) {
      sum += static_cast<double>(x[row * columns + j]);
    }
    sum = reduce_block(sum, Sum(), scratch);
    if (threadIdx.x == 0) {
      const Real step = alpha * static_cast<Real>(sum);
      to[row] = beta == Real(0) ? step : beta * to[row] + step;
    }
  }
}

template <class Real>
class CudaConvolutionKernels final : public BasicConvolutionKernels<Real> {
 public:
  explicit CudaConvolutionKernels(Backend& backend)
      : backend_(backend), windows_(backend.stream), sums_(backend.stream) {}

  void forward(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* W,
               const Real* bias, Real* Y) override {
    for_groups(s, n, [&](const GroupShape& g, std::size_t first, Real* windows, Real* sums) {
      copy_windows(g, X + first * s.inputs(), windows);
      backend_.blas.gemm(Transpose::no, Transpose::no, g.filters(), g.columns(), g.depth(), Real(1),
                         weights(g, W), g.depth(), windows, g.columns(), Real(0), sums,
                         g.columns());
      launch_rowwise(backend_.use(), g.filters(), g.columns(),
                     SumsToMaps<Real>{g, sums, bias, Y + first * s.outputs()},
                     "kernel sums_to_maps");
    });
  }

  void input_gradient(const ConvolutionShape& s, std::size_t n, const Real* dY, const Real* W,
                      Real beta, Real* dX) override {
    for_groups(s, n, [&](const GroupShape& g, std::size_t first, Real* windows, Real* sums) {
      maps_to_sums(g, dY + first * s.outputs(), sums);
      backend_.blas.gemm(Transpose::yes, Transpose::no, g.depth(), g.columns(), g.filters(),
                         Real(1), weights(g, W), g.depth(), sums, g.columns(), Real(0), windows,
                         g.columns());
      launch_rowwise(backend_.use(), g.samples * g.channels(), s.in_height * s.in_width,
                     AddWindows<Real>{g, windows, beta, dX + first * s.inputs()},
                     "kernel add_windows");
    });
  }

  void parameter_gradient(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* dY,
                          Real alpha, Real beta, Real* G, Real* g_bias) override {
    for_groups(s, n, [&](const GroupShape& g, std::size_t first, Real* windows, Real* sums) {
      const Real here = first == 0 ? beta : Real(1);
      copy_windows(g, X + first * s.inputs(), windows);
      maps_to_sums(g, dY + first * s.outputs(), sums);
      backend_.blas.gemm(Transpose::no, Transpose::yes, g.filters(), g.depth(), g.columns(), alpha,
                         sums, g.columns(), windows, g.columns(), here, weights(g, G), g.depth());
      if (g_bias == nullptr) return;
      launch(backend_.use(), g.filters(), 1, "kernel add_up_rows", add_up_rows_kernel<Real>,
             g.filters(), g.columns(), sums, alpha, here, g_bias + g.group * g.filters());
    });
  }

 private:
  // Calls f(group, first sample, room for windows, room for sums) for all groups of all samples.
  // The number of samples in a product depends on the shape alone.
  template <class F>
  void for_groups(const ConvolutionShape& s, std::size_t n, const F& f) {
    backend_.use();
    GroupShape g{s, 0, 1};
    const std::size_t each = std::max(g.depth(), g.filters()) * g.pixels() * sizeof(Real);
    const std::size_t together =
        std::clamp<std::size_t>(kRoomBytes / each, 1, std::max<std::size_t>(n, 1));
    g.samples = together;
    Real* const windows = windows_.reserve<Real>(g.depth() * g.columns(), "windows of images");
    Real* const sums = sums_.reserve<Real>(g.filters() * g.columns(), "maps of images");
    for (std::size_t first = 0; first < n; first += together) {
      g.samples = std::min(together, n - first);
      for (g.group = 0; g.group < s.groups; ++g.group) f(g, first, windows, sums);
    }
  }

  void copy_windows(const GroupShape& g, const Real* X, Real* windows) const {
    launch_rowwise(backend_.use(), g.depth(), g.columns(), CopyWindows<Real>{g, X, windows},
                   "kernel copy_windows");
  }
  void maps_to_sums(const GroupShape& g, const Real* dY, Real* sums) const {
    launch_rowwise(backend_.use(), g.filters(), g.columns(), MapsToSums<Real>{g, dY, sums},
                   "kernel maps_to_sums");
  }

  template <class Pointer>
  static Pointer weights(const GroupShape& g, Pointer W) {
    return W + g.group * g.filters() * g.depth();
  }

  Backend& backend_;
  DeviceMemory windows_, sums_;
};

// Registers the kernels of the library that the device was made with.
class RegisterConvolutions {
 public:
  RegisterConvolutions() {
    add<float>();
    add<double>();
  }

 private:
  template <class Real>
  static void add() {
    KernelFamilies<Backend>::makers()[typeid(BasicConvolutionKernels<Real>)] =
        [](Backend& backend) -> std::unique_ptr<KernelFamily> {
      if (backend.convolutions == ConvolutionLibrary::cudnn) {
        return make_cudnn_convolution<Real>(backend);
      }
      return std::make_unique<CudaConvolutionKernels<Real>>(backend);
    };
  }
};

const RegisterConvolutions convolution_kernels;

}  // namespace

}  // namespace hetsgd::cuda
