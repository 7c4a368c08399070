#include "linalg/cuda/adasum.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"

namespace hetsgd::cuda {

namespace {

// Block b adds up every gridDim.x-th piece of kThreads terms; the grid follows from n alone, and
// one block per sum adds up the blocks' sums: always the same order. Two elements are on their way
// per turn, six sums hide the latency of the additions.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    products_kernel(std::size_t n, const Real* x, const Real* y, double* partials) {
  __shared__ double scratch[kWarps];
  double xy[2] = {}, xx[2] = {}, yy[2] = {};
  const std::size_t step = gridDim.x * kThreads;
  for (std::size_t i = blockIdx.x * kThreads + threadIdx.x; i < n; i += 2 * step) {
    const bool both = i + step < n;
    const double a[2] = {static_cast<double>(x[i]), both ? static_cast<double>(x[i + step]) : 0};
    const double b[2] = {static_cast<double>(y[i]), both ? static_cast<double>(y[i + step]) : 0};
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      xy[s] += a[s] * b[s];
      xx[s] += a[s] * a[s];
      yy[s] += b[s] * b[s];
    }
  }
  const double total[3] = {reduce_block(xy[0] + xy[1], Sum(), scratch),
                           reduce_block(xx[0] + xx[1], Sum(), scratch),
                           reduce_block(yy[0] + yy[1], Sum(), scratch)};
  if (threadIdx.x < 3) partials[threadIdx.x * gridDim.x + blockIdx.x] = total[threadIdx.x];
}

// Sum b of `count` partials each.
__global__ void __launch_bounds__(kThreads)
    add_up_rows(std::size_t count, const double* partials, double* sums) {
  __shared__ double scratch[kWarps];
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += kThreads) {
    sum += partials[blockIdx.x * count + i];
  }
  sum = reduce_block(sum, Sum(), scratch);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Each thread loads four elements before it stores any: bytes in flight are what bandwidth needs.
constexpr std::size_t kUnroll = 4;
constexpr std::size_t kBlockElements = kThreads * kUnroll;

template <class Real>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(std::size_t n, double a, const Real* x, double b, const Real* y, Real* z) {
  const std::size_t step = gridDim.x * kBlockElements;
  for (std::size_t base = blockIdx.x * kBlockElements; base < n; base += step) {
    Real sum[kUnroll] = {};
#pragma unroll
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const std::size_t i = base + u * kThreads + threadIdx.x;
      if (i < n) {
        sum[u] = static_cast<Real>(a * static_cast<double>(x[i]) + b * static_cast<double>(y[i]));
      }
    }
#pragma unroll
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const std::size_t i = base + u * kThreads + threadIdx.x;
      if (i < n) z[i] = sum[u];
    }
  }
}

}  // namespace

template <class Real>
void products(cudaStream_t stream, std::size_t n, const Real* x, const Real* y, double* partials,
              double* sums) {
  const std::size_t blocks = partial_sums(n);
  if (blocks > 0) {
    products_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(n, x, y, partials);
    check_launch("kernel products");
  }
  add_up_rows<<<3, kThreads, 0, stream>>>(blocks, partials, sums);
  check_launch("kernel add_up_rows");
}

template <class Real>
void combine(cudaStream_t stream, std::size_t n, double a, const Real* x, double b, const Real* y,
             Real* z) {
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(n, kBlockElements));
  combine_kernel<<<blocks, kThreads, 0, stream>>>(n, a, x, b, y, z);
  check_launch("kernel combine");
}

#define HETSGD_INSTANTIATE(Real)                                                                   \
  template void products<Real>(cudaStream_t, std::size_t, const Real*, const Real*, double*,       \
                               double*);                                                           \
  template void combine<Real>(cudaStream_t, std::size_t, double, const Real*, double, const Real*, \
                              Real*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
