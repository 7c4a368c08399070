// Sums and maxima over the threads of one block, in a fixed order: lanes of a warp by halves, then
// the warps by halves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/index.hpp"

namespace hetsgd::cuda {

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// The larger number; NaN operands lose.
struct LargestNumber {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

// Over kLanes neighbouring lanes, a power of two.
template <int kLanes = kWarp, class T, class Op>
__device__ T reduce_warp(T x, Op op) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    x = op(x, __shfl_xor_sync(0xFFFFFFFFU, x, distance));
  }
  return x;  // on every lane, the same bits: both ends of an exchange combine the same two numbers
}

// All kThreads threads must call it together; all get the result. `scratch` has kWarps elements of
// shared memory, free again at the return.
template <class T, class Op>
__device__ T reduce_block(T x, Op op, T* scratch) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  x = reduce_warp(x, op);
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  x = scratch[lane % kWarps];
#pragma unroll
  for (int distance = static_cast<int>(kWarps) / 2; distance > 0; distance /= 2) {
    x = op(x, __shfl_xor_sync(0xFFFFFFFFU, x, distance));
  }
  __syncthreads();
  return x;
}

// Launches a kernel for `tasks` tasks, unless there are none: blocks of kThreads threads do
// `per_block` of them side by side. `name` is the kernel's in errors.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, std::size_t tasks, std::size_t per_block, const char* name,
            void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (tasks == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(tasks, per_block));
  kernel<<<blocks, kThreads, 0, stream>>>(arguments...);
  check_launch(name);
}

// Element by element over rows: a warp works on a piece of a row. So a few long rows keep as many
// threads busy as many short ones, and no element needs a division.

// Calls f(row, column) for all columns of rows 0 to count - 1.
template <class F>
__global__ void __launch_bounds__(kThreads) rowwise(std::size_t count, std::size_t n, F f) {
  constexpr std::size_t kPiece = kWarp * 16;
  const std::size_t tasks = count * ceil_divide(n, kPiece);
  const std::size_t lane = threadIdx.x % kWarp;
  for (std::size_t task = blockIdx.x * kWarps + threadIdx.x / kWarp; task < tasks;
       task += gridDim.x * kWarps) {
    const Tile tile = tile_of(task, n, kPiece);
#pragma unroll 4
    for (std::size_t j = tile.columns.begin + lane; j < tile.columns.end; j += kWarp) {
      f(tile.row, j);
    }
  }
}

template <class F>
void launch_rowwise(cudaStream_t stream, std::size_t count, std::size_t n, const F& f,
                    const char* name) {
  launch(stream, count * ceil_divide(n, kWarp * 16), kWarps, name, rowwise<F>, count, n, f);
}

// A rule for pixels (map, h, w) as one for rows.
template <class Rule>
struct OnPixels {
  std::size_t width;
  Rule rule;
  __device__ void operator()(std::size_t map, std::size_t at) const {
    rule(map, at / width, at % width);
  }
};

// Calls rules (*_rules.hpp), as cores/cores.hpp does, with a thread for each element. `name` is the
// kernel's in errors; what an element costs does not matter.
class ParallelFor {
 public:
  using Owner = Backend;
  explicit ParallelFor(Backend& backend) : backend_(backend) {}

  template <class Rule>
  void rows(std::size_t count, std::size_t n, const Rule& rule, const char* name,
            std::size_t /*cost*/ = 1) const {
    launch_rowwise(backend_.use(), count, n, rule, name);
  }
  template <class Rule>
  void pixels(std::size_t maps, std::size_t height, std::size_t width, const Rule& rule,
              const char* name, std::size_t /*cost*/ = 1) const {
    rows(maps, height * width, OnPixels<Rule>{width, rule}, name);
  }

 private:
  Backend& backend_;
};

// 16 bytes of an array at once: a thread's widest access to memory.

template <class Real, int V>
struct alignas(V * sizeof(Real)) Pack {
  Real at[V];
};

template <class Real>
inline constexpr int kPackOf = 16 / sizeof(Real);

template <class Real, int V>
__device__ Pack<Real, V> load_pack(const Real* from) {
  return *reinterpret_cast<const Pack<Real, V>*>(from);
}
template <class Real, int V>
__device__ void store_pack(Real* to, const Pack<Real, V>& pack) {
  *reinterpret_cast<Pack<Real, V>*>(to) = pack;
}

}  // namespace hetsgd::cuda
