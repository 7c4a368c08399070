#include <type_traits>

#include "linalg/cuda/block.cuh"
#include "linalg/cuda/ranking.hpp"

namespace hetsgd::cuda {

namespace {

// Joins the lists of all threads of a block into that of thread 0. In each step the upper half of
// the threads that still have a list hands it to the lower half.
template <class Real, int K>
__device__ void join(Best<Real, K>& mine) {
  __shared__ Real scores[kThreads / 2 * K];
  __shared__ std::uint32_t labels[kThreads / 2 * K];
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x >= half && threadIdx.x < 2 * half) {
      const unsigned at = (threadIdx.x - half) * K;
#pragma unroll
      for (int i = 0; i < K; ++i) {
        scores[at + i] = mine.score[i];
        labels[at + i] = mine.label[i];
      }
    }
    __syncthreads();
    if (threadIdx.x < half) {
      for (int i = 0; i < K; ++i)
        mine.insert(scores[threadIdx.x * K + i], labels[threadIdx.x * K + i]);
    }
    __syncthreads();
  }
}

template <class Real>
__device__ Real not_a_number() {
  return static_cast<Real>(nan(""));
}

template <class Real, int K>
__device__ void write_list(const Best<Real, K>& best, const Candidates<Real>& candidates,
                           std::size_t row, std::size_t list) {
  const std::size_t at = (row * candidates.lists + list) * K;
#pragma unroll
  for (int i = 0; i < K; ++i) {
    candidates.scores[at + i] = best.score[i];
    candidates.labels[at + i] = best.label[i];
  }
}

// A block per piece of a row.
template <class Real, int K>
__global__ void __launch_bounds__(kThreads)
    top_of_pieces(std::size_t rows, LogitBlock<const Real> block, std::size_t first_list,
                  Candidates<Real> candidates) {
  const Real* const bias = block.bias != nullptr ? block.bias + block.first_label : nullptr;
  const std::size_t pieces = ceil_divide(block.columns, kTopSegment);
  for (std::size_t task = blockIdx.x; task < rows * pieces; task += gridDim.x) {
    const Tile tile = tile_of(task, block.columns, kTopSegment);
    const Real* __restrict__ const z = block.Z + tile.row * block.stride;
    Best<Real, K> best;
    best.clear(not_a_number<Real>());
#pragma unroll 4
    for (std::size_t j = tile.columns.begin + threadIdx.x; j < tile.columns.end; j += kThreads) {
      const Real score = bias != nullptr ? z[j] + bias[j] : z[j];
      best.insert(score, static_cast<std::uint32_t>(block.first_label + j));
    }
    join(best);
    if (threadIdx.x == 0) {
      write_list(best, candidates, tile.row, first_list + task % pieces);
    }
  }
}

// A block per row: the best parts, then the best of their columns. Parts without a number above
// -inf do not tell whether they hold -inf or NaN, so all columns are read if these are among the
// best.
template <class Real, int K>
__global__ void __launch_bounds__(kThreads)
    top_of_parts_kernel(std::size_t rows, LogitBlock<const Real> block,
                        SoftmaxRows<Real> statistics, std::size_t list,
                        Candidates<Real> candidates) {
  __shared__ std::uint32_t chosen[K];
  __shared__ bool all;
  const Real* const bias = block.bias != nullptr ? block.bias + block.first_label : nullptr;
  const std::size_t first_part = block.first_label / kPart;
  const std::size_t parts = ceil_divide(block.columns, kPart);
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Real* const largest = statistics.part_max + row * statistics.parts + first_part;
    const Real* __restrict__ const z = block.Z + row * block.stride;
    Best<Real, K> best;
    best.clear(not_a_number<Real>());
    for (std::size_t p = threadIdx.x; p < parts; p += kThreads) {
      best.insert(largest[p], static_cast<std::uint32_t>(p));
    }
    join(best);
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < K; ++i) chosen[i] = best.label[i];
      all = !(best.score[K - 1] > -static_cast<Real>(INFINITY));
    }
    __syncthreads();
    best.clear(not_a_number<Real>());
    const std::size_t count = all ? block.columns : K * kPart;
#pragma unroll 4
    for (std::size_t i = threadIdx.x; i < count; i += kThreads) {
      const std::size_t j = all ? i : chosen[i / kPart] * kPart + i % kPart;
      if (j >= block.columns) continue;
      const Real score = bias != nullptr ? z[j] + bias[j] : z[j];
      best.insert(score, static_cast<std::uint32_t>(block.first_label + j));
    }
    join(best);
    if (threadIdx.x == 0) write_list(best, candidates, row, list);
  }
}

// A block per row.
template <class Real, int K>
__global__ void __launch_bounds__(kThreads)
    top_of_rows(std::size_t rows, Candidates<Real> candidates, std::size_t k,
                std::uint32_t* __restrict__ top) {
  const std::size_t count = candidates.lists * K;
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Best<Real, K> best;
    best.clear(not_a_number<Real>());
    for (std::size_t i = threadIdx.x; i < count; i += kThreads) {
      best.insert(candidates.scores[row * count + i], candidates.labels[row * count + i]);
    }
    join(best);
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < K; ++i) {
        if (static_cast<std::size_t>(i) < k) top[row * k + i] = best.label[i];
      }
    }
  }
}

// The smallest compiled width that holds k <= 16.
std::size_t top_width(std::size_t k) { return k <= 1 ? 1 : k <= 5 ? 5 : 16; }

// Calls f(K) for a width K that top_width() returns, as a constant.
template <class F>
void with_width(std::size_t width, const F& f) {
  if (width == 1) {
    f(std::integral_constant<int, 1>());
  } else if (width == 5) {
    f(std::integral_constant<int, 5>());
  } else {
    f(std::integral_constant<int, 16>());
  }
}

}  // namespace

std::size_t top_parts(std::size_t n) { return ceil_divide(n, kTopSegment); }

template <class Real>
Candidates<Real> Ranking<Real>::reserve(std::size_t rows, std::size_t lists, std::size_t k) {
  const char* const purpose = "the best labels of a batch";
  const std::size_t width = top_width(k), count = rows * lists * width;
  return {lists, width, scores_.template reserve<Real>(count, purpose),
          labels_.template reserve<std::uint32_t>(count, purpose)};
}

template <class Real>
void top_of_block(cudaStream_t stream, std::size_t rows, const LogitBlock<const Real>& block,
                  std::size_t first_list, const Candidates<Real>& candidates) {
  with_width(candidates.width, [&](auto width) {
    launch(stream, rows * top_parts(block.columns), 1, "kernel top_of_pieces",
           top_of_pieces<Real, decltype(width)::value>, rows, block, first_list, candidates);
  });
}

template <class Real>
void top_of_parts(cudaStream_t stream, std::size_t rows, const LogitBlock<const Real>& block,
                  const SoftmaxRows<Real>& statistics, std::size_t list,
                  const Candidates<Real>& candidates) {
  if (block.columns == 0) return;
  with_width(candidates.width, [&](auto width) {
    launch(stream, rows, 1, "kernel top_of_parts",
           top_of_parts_kernel<Real, decltype(width)::value>, rows, block, statistics, list,
           candidates);
  });
}

template <class Real>
void top_of_all(cudaStream_t stream, std::size_t rows, const Candidates<Real>& candidates,
                std::size_t k, std::uint32_t* top) {
  with_width(candidates.width, [&](auto width) {
    launch(stream, rows, 1, "kernel top_of_rows", top_of_rows<Real, decltype(width)::value>, rows,
           candidates, k, top);
  });
}

#define HETSGD_INSTANTIATE(Real)                                                                  \
  template class Ranking<Real>;                                                                   \
  template void top_of_block<Real>(cudaStream_t, std::size_t, const LogitBlock<const Real>&,      \
                                   std::size_t, const Candidates<Real>&);                         \
  template void top_of_parts<Real>(cudaStream_t, std::size_t, const LogitBlock<const Real>&,      \
                                   const SoftmaxRows<Real>&, std::size_t,                         \
                                   const Candidates<Real>&);                                      \
  template void top_of_all<Real>(cudaStream_t, std::size_t, const Candidates<Real>&, std::size_t, \
                                 std::uint32_t*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
