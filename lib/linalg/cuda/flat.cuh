// Element by element over many short rows: neighbouring threads have neighbouring numbers, of
// whatever row, so that no lane of a warp is without work where rows have less than 32 numbers.
// Longer rows are better off with rowwise.cuh, which needs no division.
#pragma once

#include "linalg/cuda/check.hpp"
#include "linalg/cuda/index.hpp"

namespace hetsgd::cuda {

// f(row, column) for all columns of rows 0 to count - 1. Index: of count * n numbers.
template <class Index, class F>
__global__ void __launch_bounds__(kThreads) flat(Index count, Index n, F f) {
  const Index numbers = count * n, step = static_cast<Index>(gridDim.x * kThreads);
  for (Index t = static_cast<Index>(blockIdx.x * kThreads + threadIdx.x); t < numbers; t += step) {
    f(std::size_t{t / n}, std::size_t{t % n});
  }
}

template <class F>
void launch_flat(cudaStream_t stream, std::size_t count, std::size_t n, const F& f,
                 const char* name) {
  // With room for a last step beyond the numbers.
  constexpr std::size_t kMost32 = (std::size_t{1} << 32) - kMostBlocks * kThreads;
  if (count == 0 || n == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(count * n, kThreads));
  if (count * n < kMost32) {
    flat<std::uint32_t><<<blocks, kThreads, 0, stream>>>(static_cast<std::uint32_t>(count),
                                                         static_cast<std::uint32_t>(n), f);
  } else {
    flat<std::uint64_t><<<blocks, kThreads, 0, stream>>>(std::uint64_t{count}, std::uint64_t{n}, f);
  }
  check_launch(name);
}

}  // namespace hetsgd::cuda
