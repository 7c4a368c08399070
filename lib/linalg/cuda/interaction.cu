// The interaction kernels of a GPU.
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/interaction_kernels.hpp"

namespace hetsgd::cuda {

namespace {

template <class Real>
struct FmGradient {
  FieldVectors shape;
  const Real* Y;
  const Real* S;
  const Real* d;
  Real* dY;
  __device__ void operator()(std::size_t r, std::size_t j) const {
    const std::size_t at = r * shape.width + shape.first + j;
    dY[at] += d[r] * (S[r * shape.embedding + j % shape.embedding] - Y[at]);
  }
};

// The inner product of two rows of n elements by the lanes of a warp; the same bits on each lane.
template <class Real>
__device__ Real warp_dot(std::size_t n, const Real* x, const Real* y) {
  Real sum = 0;
  for (std::size_t j = threadIdx.x % kWarp; j < n; j += kWarp) sum += x[j] * y[j];
  return reduce_warp(sum, Sum());
}

// A warp per sample, a lane per element of its embeddings: the sum over the fields, and its
// contribution to the pairwise term.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    fm_forward_kernel(std::size_t rows, FieldVectors shape, const Real* __restrict__ Y,
                      Real* __restrict__ S, Real* __restrict__ z) {
  const std::size_t lane = threadIdx.x % kWarp, D = shape.embedding;
  for (std::size_t r = blockIdx.x * kWarps + threadIdx.x / kWarp; r < rows;
       r += gridDim.x * kWarps) {
    const Real* const v = Y + r * shape.width + shape.first;
    Real pairs = 0;
    for (std::size_t k = lane; k < D; k += kWarp) {
      Real sum = 0, squares = 0;
#pragma unroll 8
      for (std::size_t f = 0; f < shape.fields; ++f) {
        sum += v[f * D + k];
        squares += v[f * D + k] * v[f * D + k];
      }
      S[r * D + k] = sum;
      pairs += (sum * sum - squares) / 2;
    }
    pairs = reduce_warp(pairs, Sum());
    if (lane == 0) z[r] += pairs;
  }
}

// A warp per sample.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    cross_forward_kernel(std::size_t rows, std::size_t n, const Real* __restrict__ x0,
                         const Real* __restrict__ x, const Real* __restrict__ w,
                         const Real* __restrict__ b, Real* __restrict__ s, Real* __restrict__ y) {
  const std::size_t lane = threadIdx.x % kWarp;
  for (std::size_t r = blockIdx.x * kWarps + threadIdx.x / kWarp; r < rows;
       r += gridDim.x * kWarps) {
    const Real factor = warp_dot(n, x + r * n, w);
    if (lane == 0) s[r] = factor;
    for (std::size_t j = lane; j < n; j += kWarp) {
      y[r * n + j] = x0[r * n + j] * factor + b[j] + x[r * n + j];
    }
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    cross_backward_kernel(std::size_t rows, std::size_t n, const Real* __restrict__ x0,
                          const Real* __restrict__ w, const Real* __restrict__ s,
                          Real* __restrict__ t, Real* __restrict__ g, Real* __restrict__ dx0) {
  const std::size_t lane = threadIdx.x % kWarp;
  for (std::size_t r = blockIdx.x * kWarps + threadIdx.x / kWarp; r < rows;
       r += gridDim.x * kWarps) {
    const Real factor = warp_dot(n, g + r * n, x0 + r * n);
    if (lane == 0) t[r] = factor;
    for (std::size_t j = lane; j < n; j += kWarp) {
      const Real mine = g[r * n + j];
      dx0[r * n + j] += mine * s[r];
      g[r * n + j] = mine + factor * w[j];
    }
  }
}

template <class Real>
class CudaInteractionKernels final : public BasicInteractionKernels<Real> {
 public:
  explicit CudaInteractionKernels(Backend& backend) : backend_(backend) {}

  void fm_forward(std::size_t rows, const FieldVectors& shape, const Real* Y, Real* S,
                  Real* z) override {
    launch(backend_.use(), rows, kWarps, "kernel fm_forward", fm_forward_kernel<Real>, rows, shape,
           Y, S, z);
  }

  void fm_backward(std::size_t rows, const FieldVectors& shape, const Real* Y, const Real* S,
                   const Real* d, Real* dY) override {
    launch_rowwise(backend_.use(), rows, shape.fields * shape.embedding,
                   FmGradient<Real>{shape, Y, S, d, dY}, "kernel fm_gradient");
  }

  void cross_forward(std::size_t rows, std::size_t n, const Real* x0, const Real* x, const Real* w,
                     const Real* b, Real* s, Real* y) override {
    launch(backend_.use(), rows, kWarps, "kernel cross_forward", cross_forward_kernel<Real>, rows,
           n, x0, x, w, b, s, y);
  }

  void cross_backward(std::size_t rows, std::size_t n, const Real* x0, const Real* w, const Real* s,
                      Real* t, Real* g, Real* dx0) override {
    launch(backend_.use(), rows, kWarps, "kernel cross_backward", cross_backward_kernel<Real>, rows,
           n, x0, w, s, t, g, dx0);
  }

 private:
  Backend& backend_;
};

const RegisterKernels<Backend, BasicInteractionKernels, CudaInteractionKernels> interaction_kernels;

}  // namespace

}  // namespace hetsgd::cuda
