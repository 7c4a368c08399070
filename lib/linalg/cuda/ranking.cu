#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
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

// The parts that can hold a row's K best scores, by its largest score of each part. Parts without a
// number above -inf do not tell whether they hold -inf or NaN, so all columns are candidates if
// these are among the best.
template <int K>
struct Choice {
  std::uint32_t part[K];
  bool all;

  // All threads of a block call it together. `best` is free afterwards, the choice in shared memory
  // is complete.
  template <class Real>
  __device__ void choose(const Real* largest, std::size_t parts, Best<Real, K>& best) {
    best.clear(not_a_number<Real>());
    for (std::size_t p = threadIdx.x; p < parts; p += kThreads) {
      best.insert(largest[p], static_cast<std::uint32_t>(p));
    }
    join(best);
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < K; ++i) part[i] = best.label[i];
      all = !(best.score[K - 1] > -static_cast<Real>(INFINITY));
    }
    __syncthreads();
    best.clear(not_a_number<Real>());
  }
  // The candidates are columns column(0), ..., column(count() - 1), of which some may not exist.
  __device__ std::size_t count(std::size_t columns, std::size_t width) const {
    return all ? columns : K * width;
  }
  __device__ std::size_t column(std::size_t i, std::size_t width) const {
    return all ? i : part[i / width] * width + i % width;
  }
};

// A block per row.
template <class Real, int K>
__global__ void __launch_bounds__(kThreads)
    top_of_parts_kernel(std::size_t rows, LogitBlock<const Real> block,
                        SoftmaxRows<Real> statistics, std::size_t list,
                        Candidates<Real> candidates) {
  __shared__ Choice<K> choice;
  const Real* const bias = block.bias != nullptr ? block.bias + block.first_label : nullptr;
  const std::size_t first_part = block.first_label / kPart;
  const std::size_t parts = ceil_divide(block.columns, kPart);
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Real* __restrict__ const z = block.Z + row * block.stride;
    Best<Real, K> best;
    choice.choose(statistics.part_max + row * statistics.parts + first_part, parts, best);
    const std::size_t count = choice.count(block.columns, kPart);
#pragma unroll 4
    for (std::size_t i = threadIdx.x; i < count; i += kThreads) {
      const std::size_t j = choice.column(i, kPart);
      if (j >= block.columns) continue;
      const Real score = bias != nullptr ? z[j] + bias[j] : z[j];
      best.insert(score, static_cast<std::uint32_t>(block.first_label + j));
    }
    join(best);
    if (threadIdx.x == 0) write_list(best, candidates, row, list);
  }
}

// A block per row, a warp per candidate: its lanes multiply kRescoredInputs elements, and with
// kAtOnce candidates in flight each of as many lanes keeps one.
template <int K>
__global__ void __launch_bounds__(kThreads)
    top_of_rescored_kernel(std::size_t rows, SoftmaxLayer<float> layer, const float* maxima,
                           std::size_t parts, std::size_t width, Candidates<float> candidates) {
  constexpr int kAtOnce = 8;
  __shared__ Choice<K> choice;
  const std::size_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const float* const W = layer.weight + 4 * lane;
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto a = load_pack<float, 4>(layer.input + row * kRescoredInputs + 4 * lane);
    Best<float, K> best;
    choice.choose(maxima + row * parts, parts, best);
    const std::size_t count = choice.count(layer.outputs, width);
    for (std::size_t first = warp * kAtOnce; first < count; first += kWarps * kAtOnce) {
      Pack<float, 4> w[kAtOnce];
      std::size_t mine = layer.outputs;
      float score = 0;
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const std::size_t i = smaller(first + static_cast<std::size_t>(u), count - 1);
        const std::size_t label = choice.column(i, width);
        w[u] = load_pack<float, 4>(W + smaller(label, layer.outputs - 1) * kRescoredInputs);
        const bool is_mine = lane == static_cast<std::size_t>(u);
        if (is_mine && i == first + static_cast<std::size_t>(u)) mine = label;
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        float sum = 0;
#pragma unroll
        for (int v = 0; v < 4; ++v) sum += a.at[v] * w[u].at[v];
        sum = reduce_warp(sum, Sum());
        if (lane == static_cast<std::size_t>(u)) score = sum;
      }
      if (mine < layer.outputs) {
        if (layer.bias != nullptr) score += layer.bias[mine];
        best.insert(score, static_cast<std::uint32_t>(mine));
      }
    }
    join(best);
    if (threadIdx.x == 0) write_list(best, candidates, row, 0);
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

// Calls launch.run<K>() for a width K that top_width() returns.
template <class Launch>
void with_width(std::size_t width, const Launch& launch) {
  if (width == 1) {
    launch.template run<1>();
  } else if (width == 5) {
    launch.template run<5>();
  } else {
    launch.template run<16>();
  }
}

template <class Real>
struct LaunchPieces {
  cudaStream_t stream;
  std::size_t rows;
  LogitBlock<const Real> block;
  std::size_t first_list;
  Candidates<Real> candidates;
  template <int K>
  void run() const {
    const auto blocks = static_cast<unsigned>(blocks_for(rows * top_parts(block.columns), 1));
    top_of_pieces<Real, K><<<blocks, kThreads, 0, stream>>>(rows, block, first_list, candidates);
  }
};

template <class Real>
struct LaunchParts {
  cudaStream_t stream;
  std::size_t rows;
  LogitBlock<const Real> block;
  SoftmaxRows<Real> statistics;
  std::size_t list;
  Candidates<Real> candidates;
  template <int K>
  void run() const {
    const auto blocks = static_cast<unsigned>(blocks_for(rows, 1));
    top_of_parts_kernel<Real, K>
        <<<blocks, kThreads, 0, stream>>>(rows, block, statistics, list, candidates);
  }
};

struct LaunchRescored {
  cudaStream_t stream;
  std::size_t rows;
  SoftmaxLayer<float> layer;
  const float* maxima;
  std::size_t parts, width;
  Candidates<float> candidates;
  template <int K>
  void run() const {
    const auto blocks = static_cast<unsigned>(blocks_for(rows, 1));
    top_of_rescored_kernel<K>
        <<<blocks, kThreads, 0, stream>>>(rows, layer, maxima, parts, width, candidates);
  }
};

template <class Real>
struct LaunchRows {
  cudaStream_t stream;
  std::size_t rows;
  Candidates<Real> candidates;
  std::size_t k;
  std::uint32_t* top;
  template <int K>
  void run() const {
    const auto blocks = static_cast<unsigned>(blocks_for(rows, 1));
    top_of_rows<Real, K><<<blocks, kThreads, 0, stream>>>(rows, candidates, k, top);
  }
};

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
  if (rows == 0 || block.columns == 0) return;
  with_width(candidates.width, LaunchPieces<Real>{stream, rows, block, first_list, candidates});
  check_launch("kernel top_of_pieces");
}

template <class Real>
void top_of_parts(cudaStream_t stream, std::size_t rows, const LogitBlock<const Real>& block,
                  const SoftmaxRows<Real>& statistics, std::size_t list,
                  const Candidates<Real>& candidates) {
  if (rows == 0 || block.columns == 0) return;
  with_width(candidates.width,
             LaunchParts<Real>{stream, rows, block, statistics, list, candidates});
  check_launch("kernel top_of_parts");
}

void top_of_rescored_parts(cudaStream_t stream, std::size_t rows, const SoftmaxLayer<float>& layer,
                           const float* maxima, std::size_t parts, std::size_t width,
                           const Candidates<float>& candidates) {
  if (rows == 0 || layer.outputs == 0) return;
  with_width(candidates.width,
             LaunchRescored{stream, rows, layer, maxima, parts, width, candidates});
  check_launch("kernel top_of_rescored_parts");
}

template <class Real>
void top_of_all(cudaStream_t stream, std::size_t rows, const Candidates<Real>& candidates,
                std::size_t k, std::uint32_t* top) {
  if (rows == 0) return;
  with_width(candidates.width, LaunchRows<Real>{stream, rows, candidates, k, top});
  check_launch("kernel top_of_rows");
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
