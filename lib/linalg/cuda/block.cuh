// Sums and maxima over the threads of one block, in a fixed order: lanes of a warp by halves, then
// the warps by halves.
#pragma once

#include "linalg/cuda/index.hpp"

namespace hetsgd::cuda {

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
// NaN operands lose.
struct Largest {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

template <class T, class Op>
__device__ T reduce_warp(T x, Op op) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    x = op(x, __shfl_xor_sync(0xFFFFFFFFU, x, distance));
  }
  return x;  // on every lane, the same bits: both ends of an exchange combine the same two numbers
}

// All kThreads threads call it together; all get the result. `scratch`: kWarps numbers of shared
// memory, free again at the return.
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

}  // namespace hetsgd::cuda
