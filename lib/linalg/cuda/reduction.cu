#include <cstdint>

#include "linalg/cuda/block.cuh"
#include "linalg/cuda/reduction.hpp"

namespace hetsgd::cuda {

template <class T>
struct Vectors {
  const T* in[kMostOperands];
  T* out[kMostOperands];
  unsigned inputs, outputs;
};

namespace {

template <class T>
__device__ T add(T a, T b) {
  return a + b;
}
// Integers wrap around.
__device__ std::int64_t add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// Ties and NaN keep the earlier value.
template <Reduction op, class T>
__device__ T reduced(T a, T b) {
  if (op == Reduction::max) return a < b ? b : a;
  if (op == Reduction::min) return b < a ? b : a;
  return add(a, b);
}

// Each thread has four elements of every operand in flight at a time.
constexpr std::size_t kUnroll = 4;
constexpr std::size_t kBlockElements = kThreads * kUnroll;

template <Reduction op, class T>
__global__ void __launch_bounds__(kThreads) reduce_kernel(std::size_t n, Vectors<T> vectors) {
  const std::size_t step = gridDim.x * kBlockElements;
  for (std::size_t base = blockIdx.x * kBlockElements; base < n; base += step) {
    T sum[kUnroll] = {};
    for (unsigned r = 0; r < vectors.inputs; ++r) {
      const T* const x = vectors.in[r];
#pragma unroll
      for (std::size_t u = 0; u < kUnroll; ++u) {
        const std::size_t i = base + u * kThreads + threadIdx.x;
        if (i < n) sum[u] = r == 0 ? x[i] : reduced<op>(sum[u], x[i]);
      }
    }
    for (unsigned j = 0; j < vectors.outputs; ++j) {
      T* const y = vectors.out[j];
#pragma unroll
      for (std::size_t u = 0; u < kUnroll; ++u) {
        const std::size_t i = base + u * kThreads + threadIdx.x;
        if (i < n) y[i] = sum[u];
      }
    }
  }
}

}  // namespace

template <class T>
void reduce_vectors(cudaStream_t stream, std::size_t n, Reduction op, const T* const* in,
                    std::size_t inputs, T* const* out, std::size_t outputs) {
  Vectors<T> vectors = {};
  for (std::size_t r = 0; r < inputs; ++r) vectors.in[r] = in[r];
  for (std::size_t j = 0; j < outputs; ++j) vectors.out[j] = out[j];
  vectors.inputs = static_cast<unsigned>(inputs);
  vectors.outputs = static_cast<unsigned>(outputs);
  const auto run = [&](auto kernel) {
    launch(stream, n, kBlockElements, "kernel reduce", kernel, n, vectors);
  };
  switch (op) {
    case Reduction::sum:
      return run(reduce_kernel<Reduction::sum, T>);
    case Reduction::max:
      return run(reduce_kernel<Reduction::max, T>);
    case Reduction::min:
      return run(reduce_kernel<Reduction::min, T>);
  }
}

#define HETSGD_INSTANTIATE(T)                                                            \
  template void reduce_vectors<T>(cudaStream_t, std::size_t, Reduction, const T* const*, \
                                  std::size_t, T* const*, std::size_t);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
HETSGD_INSTANTIATE(std::int64_t)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
