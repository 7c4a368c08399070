// The convolution kernels of a GPU: windows copied out (im2col) and a product by cuBLAS, for as many
// samples at once as fit into kRoomBytes. The reference that others (cudnn_convolution.cpp) are
// compared with, and what is taken unless cuDNN is asked for: the bits of a run must not depend on
// whether a library happens to be installed.
//
//   windows  C [depth x q], q = samples x output pixels: element (k, q) is what weight k of a filter
//            meets at output q
//   forward             S [filters x q] = W C, then S + bias to the maps of Y
//   input gradient      C = W^T S, S from the maps of dY; each input adds up the windows that have it
//   parameter gradient  G = alpha S C^T + beta G
//
// Sizes decide the order of all additions: the bits do not depend on addresses.
#include <algorithm>

#include "linalg/convolution_kernels.hpp"
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/cudnn.hpp"
#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/windows.hpp"
#include "linalg/device.hpp"

namespace hetsgd::cuda {

namespace {

constexpr std::size_t kRoomBytes = std::size_t{256} << 20;  // of windows, and of sums

template <class Real>
class CudaConvolutionKernels final : public BasicConvolutionKernels<Real> {
 public:
  explicit CudaConvolutionKernels(Backend& backend)
      : backend_(backend), windows_(backend.stream), sums_(backend.stream) {}

  void forward(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* W,
               const Real* bias, Real* Y) override {
    for_groups(s, n, [&](const GroupShape& g, std::size_t first, Real* windows, Real* sums) {
      copy_windows(backend_.use(), g, X + first * s.inputs(), windows);
      backend_.blas.gemm(Transpose::no, Transpose::no, g.filters(), g.columns(), g.depth(), Real(1),
                         weights(g, W), g.depth(), windows, g.columns(), Real(0), sums,
                         g.columns());
      sums_to_maps(backend_.use(), g, sums, bias, Y + first * s.outputs());
    });
  }

  void input_gradient(const ConvolutionShape& s, std::size_t n, const Real* dY, const Real* W,
                      Real beta, Real* dX) override {
    for_groups(s, n, [&](const GroupShape& g, std::size_t first, Real* windows, Real* sums) {
      maps_to_sums(backend_.use(), g, dY + first * s.outputs(), sums);
      backend_.blas.gemm(Transpose::yes, Transpose::no, g.depth(), g.columns(), g.filters(),
                         Real(1), weights(g, W), g.depth(), sums, g.columns(), Real(0), windows,
                         g.columns());
      add_windows(backend_.use(), g, windows, beta, dX + first * s.inputs());
    });
  }

  void parameter_gradient(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* dY,
                          Real alpha, Real beta, Real* G, Real* g_bias) override {
    for_groups(s, n, [&](const GroupShape& g, std::size_t first, Real* windows, Real* sums) {
      const Real here = first == 0 ? beta : Real(1);
      copy_windows(backend_.use(), g, X + first * s.inputs(), windows);
      maps_to_sums(backend_.use(), g, dY + first * s.outputs(), sums);
      backend_.blas.gemm(Transpose::no, Transpose::yes, g.filters(), g.depth(), g.columns(), alpha,
                         sums, g.columns(), windows, g.columns(), here, weights(g, G), g.depth());
      if (g_bias == nullptr) return;
      add_up_rows(backend_.use(), g.filters(), g.columns(), sums, alpha, here,
                  g_bias + g.group * g.filters());
    });
  }

 private:
  // f(group, first sample, room for windows, room for sums), for all groups of all samples. The
  // samples of a product depend on the shape alone.
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

  template <class Pointer>
  static Pointer weights(const GroupShape& g, Pointer W) {
    return W + g.group * g.filters() * g.depth();
  }

  Backend& backend_;
  DeviceMemory windows_, sums_;
};

// Those of the library that the device was made with.
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
