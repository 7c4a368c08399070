// Element by element over rows: a warp per piece of a row, so that a few long rows keep as many
// threads busy as many short ones, and no element needs a division.
#pragma once

#include "linalg/cuda/check.hpp"
#include "linalg/cuda/index.hpp"

namespace hetsgd::cuda {

// f(row, column) for all columns of rows 0 to count - 1.
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
  if (count == 0 || n == 0) return;
  const std::size_t blocks = blocks_for(count * ceil_divide(n, kWarp * 16), kWarps);
  rowwise<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(count, n, f);
  check_launch(name);
}

}  // namespace hetsgd::cuda
