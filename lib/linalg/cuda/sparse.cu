#include <cub/device/device_radix_sort.cuh>

#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/sparse.hpp"

namespace hetsgd::cuda {

namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;

// A warp per row of X and 32 columns of W. The warp reads 32 nonzeros at a time, one per lane, and
// hands them round; additions run in the order of the nonzeros.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    sparse_forward_kernel(SparseRows<Real> X, std::size_t n, const Real* __restrict__ W,
                          const Real* __restrict__ bias, bool relu, Real* __restrict__ Y) {
  const std::size_t lane = threadIdx.x % kWarp;
  const std::size_t tasks = X.rows * ceil_divide(n, kWarp);
  for (std::size_t task = blockIdx.x * kWarps + threadIdx.x / kWarp; task < tasks;
       task += gridDim.x * kWarps) {
    const Tile tile = tile_of(task, n, kWarp);
    const std::size_t column = tile.columns.begin + lane;
    const bool active = column < n;
    const Real* const w = W + (active ? column : n - 1);  // every lane reads, so that all shuffle
    Real sum = bias != nullptr && active ? bias[column] : Real(0);
    const std::uint64_t end = X.begin[tile.row + 1];
    for (std::uint64_t first = X.begin[tile.row]; first < end; first += kWarp) {
      std::uint32_t index = 0;
      float value = 0;
      if (first + lane < end) {
        index = X.index[first + lane];
        value = X.value != nullptr ? X.value[first + lane] : 1.0F;
      }
      const int count = static_cast<int>(end - first < kWarp ? end - first : kWarp);
#pragma unroll 8
      for (int j = 0; j < count; ++j) {
        const std::size_t k = __shfl_sync(kAll, index, j);
        sum += static_cast<Real>(__shfl_sync(kAll, value, j)) * w[k * n];
      }
    }
    if (active) Y[tile.row * n + column] = relu && sum < Real(0) ? Real(0) : sum;
  }
}

// entries[k] <- (row, value) of nonzero k: a warp per row.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    list_entries(SparseRows<Real> X, Entry* __restrict__ entries) {
  for (std::size_t row = blockIdx.x * kWarps + threadIdx.x / kWarp; row < X.rows;
       row += gridDim.x * kWarps) {
    const std::uint64_t end = X.begin[row + 1];
    for (std::uint64_t k = X.begin[row] + threadIdx.x % kWarp; k < end; k += kWarp) {
      entries[k] = {static_cast<std::uint32_t>(row), X.value != nullptr ? X.value[k] : 1.0F};
    }
  }
}

// A warp per sorted nonzero and piece of 128 columns of W; a warp whose nonzero is not its column's
// first has nothing to do.
constexpr int kPerLane = 4;
constexpr std::size_t kPiece = kWarp * kPerLane;

template <class Real>
__global__ void __launch_bounds__(kThreads)
    sparse_update_kernel(std::size_t nonzeros, const std::uint32_t* __restrict__ keys,
                         const Entry* __restrict__ entries, std::size_t n, Real alpha,
                         const Real* __restrict__ D, Real* __restrict__ W) {
  const std::size_t lane = threadIdx.x % kWarp;
  const std::size_t tasks = nonzeros * ceil_divide(n, kPiece);
  for (std::size_t task = blockIdx.x * kWarps + threadIdx.x / kWarp; task < tasks;
       task += gridDim.x * kWarps) {
    const Tile tile = tile_of(task, n, kPiece);
    const std::uint32_t key = keys[tile.row];
    if (tile.row > 0 && keys[tile.row - 1] == key) continue;  // the whole warp
    std::size_t column[kPerLane];
    Real sum[kPerLane];
#pragma unroll
    for (int v = 0; v < kPerLane; ++v) {
      column[v] = smaller(tile.columns.begin + static_cast<std::size_t>(v) * kWarp + lane, n - 1);
      sum[v] = Real(0);
    }
    int count = static_cast<int>(kWarp);
    for (std::size_t first = tile.row; count == static_cast<int>(kWarp); first += kWarp) {
      const bool mine = first + lane < nonzeros && keys[first + lane] == key;
      Entry entry{0, 0.0F};
      if (mine) entry = entries[first + lane];
      count = __popc(__ballot_sync(kAll, mine));  // sorted: the column's nonzeros come first
#pragma unroll 4
      for (int j = 0; j < count; ++j) {
        const std::size_t row = __shfl_sync(kAll, entry.row, j);
        const auto x = static_cast<Real>(__shfl_sync(kAll, entry.value, j));
#pragma unroll
        for (int v = 0; v < kPerLane; ++v) sum[v] += x * D[row * n + column[v]];
      }
    }
#pragma unroll
    for (int v = 0; v < kPerLane; ++v) {
      const std::size_t at = tile.columns.begin + static_cast<std::size_t>(v) * kWarp + lane;
      if (at < n) W[key * n + at] += alpha * sum[v];
    }
  }
}

cudaError_t sort(void* work, std::size_t& bytes, std::size_t nonzeros, std::size_t columns,
                 const std::uint32_t* keys, const SortMemory& memory, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(work, bytes, keys, memory.columns, memory.unsorted,
                                         memory.entries, static_cast<int>(nonzeros), 0,
                                         key_bits(columns), stream);
}

}  // namespace

template <class Real>
void sparse_forward(cudaStream_t stream, const SparseRows<Real>& X, std::size_t n, const Real* W,
                    const Real* bias, bool relu, Real* Y) {
  if (X.rows == 0 || n == 0) return;
  const std::size_t blocks = blocks_for(X.rows * ceil_divide(n, kWarp), kWarps);
  sparse_forward_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(X, n, W, bias, relu,
                                                                                Y);
  check_launch("kernel sparse_forward");
}

std::size_t sort_bytes(std::size_t nonzeros, std::size_t columns) {
  std::size_t bytes = 0;
  check(sort(nullptr, bytes, nonzeros, columns, nullptr, {}, nullptr), "the sort's need of memory");
  return bytes;
}

template <class Real>
ByColumn sort_by_column(cudaStream_t stream, const SparseRows<Real>& X, std::size_t nonzeros,
                        const SortMemory& memory) {
  const ByColumn sorted{nonzeros, memory.columns, memory.entries};
  if (nonzeros == 0) return sorted;
  const auto rows = static_cast<unsigned>(blocks_for(X.rows, kWarps));
  list_entries<<<rows, kThreads, 0, stream>>>(X, memory.unsorted);
  check_launch("kernel list_entries");
  std::size_t bytes = memory.work_bytes;
  check(sort(memory.work, bytes, nonzeros, X.columns, X.index, memory, stream),
        "the sort of nonzeros by column");
  return sorted;
}

template <class Real>
void sparse_update(cudaStream_t stream, const ByColumn& X, std::size_t n, Real alpha, const Real* D,
                   Real* W) {
  if (X.nonzeros == 0 || n == 0) return;
  const std::size_t blocks = blocks_for(X.nonzeros * ceil_divide(n, kPiece), kWarps);
  sparse_update_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      X.nonzeros, X.columns, X.entries, n, alpha, D, W);
  check_launch("kernel sparse_update");
}

#define HETSGD_INSTANTIATE(Real)                                                                   \
  template void sparse_forward<Real>(cudaStream_t, const SparseRows<Real>&, std::size_t,           \
                                     const Real*, const Real*, bool, Real*);                       \
  template ByColumn sort_by_column<Real>(cudaStream_t, const SparseRows<Real>&, std::size_t,       \
                                         const SortMemory&);                                       \
  template void sparse_update<Real>(cudaStream_t, const ByColumn&, std::size_t, Real, const Real*, \
                                    Real*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
