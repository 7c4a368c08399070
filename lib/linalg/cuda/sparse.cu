// The sparse kernels of a GPU.
#include <cub/device/device_radix_sort.cuh>

#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/sparse.hpp"
#include "linalg/sparse_kernels.hpp"

namespace hetsgd::cuda {

namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;

// The kPerLane columns of W that a lane of a warp works on. They lie side by side as a pack, or a
// warp apart if rows do not begin at multiples of 16 bytes.
constexpr int kPerLane = 4;
constexpr std::size_t kPiece = kWarp * kPerLane;

template <class Real, bool kPacked>
struct Columns {
  static constexpr int V = kPacked ? kPackOf<Real> : 1;

  __device__ Columns(std::size_t first, std::size_t columns) : n(columns) {
#pragma unroll
    for (int i = 0; i < kPerLane; i += V) {
      column[i / V] = first + place(i);
    }
  }
  // Elements beyond the last column are read from the last one, and are never written.
  __device__ void load(const Real* row, Real (&x)[kPerLane]) const {
#pragma unroll
    for (int i = 0; i < kPerLane; i += V) {
      const auto pack = load_pack<Real, V>(row + smaller(column[i / V], n - V));
#pragma unroll
      for (int v = 0; v < V; ++v) x[i + v] = pack.at[v];
    }
  }
  __device__ void store(Real* row, const Real (&x)[kPerLane]) const {
#pragma unroll
    for (int i = 0; i < kPerLane; i += V) {
      Pack<Real, V> pack;
#pragma unroll
      for (int v = 0; v < V; ++v) pack.at[v] = x[i + v];
      if (column[i / V] < n) store_pack<Real, V>(row + column[i / V], pack);
    }
  }

  // The place of a lane's element i in the piece.
  __device__ static std::size_t place(int i) {
    const std::size_t lane = threadIdx.x % kWarp, at = static_cast<std::size_t>(i);
    return kPacked ? lane * kPerLane + at : at * kWarp + lane;
  }

  std::size_t n;
  std::size_t column[kPerLane / V];
};

// A block per row of X and piece of kPiece columns of W. Its warps share the row's nonzeros: rows
// of W lie anywhere, so the number of rows in flight matters. A warp reads its nonzeros one per
// lane and passes them round. Additions run in the order of the nonzeros within a warp, then of the
// warps.
template <class Real, bool kPacked>
__global__ void __launch_bounds__(kThreads)
    sparse_forward_kernel(SparseRows<Real> X, std::size_t n, const Real* __restrict__ W,
                          const Real* __restrict__ bias, bool relu, Real* __restrict__ Y) {
  __shared__ Real sums[kWarps][kPiece];
  const std::size_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::size_t tasks = X.rows * ceil_divide(n, kPiece);
  for (std::size_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Tile tile = tile_of(task, n, kPiece);
    const Columns<Real, kPacked> columns(tile.columns.begin, n);
    const std::uint64_t begin = X.begin[tile.row];
    const Range mine = group_of(X.begin[tile.row + 1] - begin, kWarps, warp);
    Real sum[kPerLane] = {};
    for (std::size_t first = mine.begin; first < mine.end; first += kWarp) {
      std::uint32_t index = 0;
      float value = 0;
      if (first + lane < mine.end) {
        index = X.index[begin + first + lane];
        value = X.value != nullptr ? X.value[begin + first + lane] : 1.0F;
      }
      const int count = static_cast<int>(smaller(mine.end - first, kWarp));
#pragma unroll 8
      for (int j = 0; j < count; ++j) {
        const std::size_t k = __shfl_sync(kAll, index, j);
        const auto x = static_cast<Real>(__shfl_sync(kAll, value, j));
        Real w[kPerLane];
        columns.load(W + k * n, w);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) sum[i] += x * w[i];
      }
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sums[warp][columns.place(i)] = sum[i];
    __syncthreads();
    const std::size_t column = tile.columns.begin + threadIdx.x;
    if (column < tile.columns.end) {
      Real total = bias != nullptr ? bias[column] : Real(0);
      for (std::size_t w = 0; w < kWarps; ++w) total += sums[w][threadIdx.x];
      Y[tile.row * n + column] = relu && total < Real(0) ? Real(0) : total;
    }
    __syncthreads();  // the sums may be overwritten
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

__global__ void __launch_bounds__(kThreads)
    list_numbers(std::size_t n, Entry* __restrict__ entries) {
  for (std::size_t i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) {
    entries[i] = {static_cast<std::uint32_t>(i), 1.0F};
  }
}

// A warp per sorted nonzero and piece of kPiece columns of W. It works if its nonzero is the first
// of its column, or of a run of kWarp, so that long columns are divided. A column within one run is
// written to W at once. For a longer one, every run leaves its sum for long_columns_kernel, at 2
// run + 1 where the column begins and at 2 run in later runs.
template <class Real, bool kPacked>
__global__ void __launch_bounds__(kThreads)
    sparse_update_kernel(ByColumn X, std::size_t n, Real alpha, const Real* __restrict__ D,
                         Real* __restrict__ W, Real* __restrict__ sums) {
  const std::size_t lane = threadIdx.x % kWarp;
  const std::size_t tasks = X.nonzeros * ceil_divide(n, kPiece);
  for (std::size_t task = blockIdx.x * kWarps + threadIdx.x / kWarp; task < tasks;
       task += gridDim.x * kWarps) {
    const Tile tile = tile_of(task, n, kPiece);
    const std::size_t first = tile.row, run = first / kWarp;
    const std::size_t at = smaller(first + lane, X.nonzeros - 1);
    const std::uint32_t mine = X.columns[at];
    const std::uint32_t before = first > 0 ? X.columns[first - 1] : 0;
    const std::uint32_t key = __shfl_sync(kAll, mine, 0);
    const bool begins = first == 0 || before != key;
    if (!begins && first % kWarp != 0) continue;  // the whole warp
    const Entry entry = X.entries[at];
    const std::size_t run_end = smaller((run + 1) * kWarp, X.nonzeros);
    const int count = __popc(__ballot_sync(kAll, first + lane < run_end && mine == key));
    const bool ends = first + count < run_end || run_end == X.nonzeros || X.columns[run_end] != key;
    const Columns<Real, kPacked> columns(tile.columns.begin, n);
    Real* const w = W + key * n;
    Real sum[kPerLane] = {}, old[kPerLane];
    if (begins && ends) columns.load(w, old);  // in flight while the sum is computed
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
      const std::size_t row = __shfl_sync(kAll, entry.row, j);
      const auto x = static_cast<Real>(__shfl_sync(kAll, entry.value, j));
      Real d[kPerLane];
      columns.load(D + row * n, d);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) sum[i] += x * d[i];
    }
    if (begins && ends) {
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) sum[i] = old[i] + alpha * sum[i];
      columns.store(w, sum);
    } else {
      columns.store(sums + (2 * run + (begins ? 1 : 0)) * n, sum);
    }
  }
}

// A warp per run and piece of columns: adds up the column that begins in the run and does not end
// there, if there is one, in the order of its runs.
template <class Real, bool kPacked>
__global__ void __launch_bounds__(kThreads)
    long_columns_kernel(ByColumn X, std::size_t n, Real alpha, const Real* __restrict__ sums,
                        Real* __restrict__ W) {
  const std::size_t runs = ceil_divide(X.nonzeros, kWarp);
  const std::size_t tasks = runs * ceil_divide(n, kPiece);
  for (std::size_t task = blockIdx.x * kWarps + threadIdx.x / kWarp; task < tasks;
       task += gridDim.x * kWarps) {
    const Tile tile = tile_of(task, n, kPiece);
    const std::size_t run = tile.row, next = (run + 1) * kWarp;
    if (next >= X.nonzeros) continue;
    const std::uint32_t key = X.columns[next];
    if (X.columns[next - 1] != key) continue;
    if (run > 0 && X.columns[run * kWarp - 1] == key) continue;  // it began earlier
    const Columns<Real, kPacked> columns(tile.columns.begin, n);
    Real sum[kPerLane], more[kPerLane];
    columns.load(sums + (2 * run + 1) * n, sum);
    int count = static_cast<int>(kWarp);
    for (std::size_t r = run + 1; count == static_cast<int>(kWarp); r += kWarp) {
      const std::size_t mine = r + threadIdx.x % kWarp;
      count = __popc(__ballot_sync(kAll, mine < runs && X.columns[mine * kWarp] == key));
#pragma unroll 8
      for (int j = 0; j < count; ++j) {
        columns.load(sums + 2 * (r + static_cast<std::size_t>(j)) * n, more);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) sum[i] += more[i];
      }
    }
    columns.load(W + key * n, more);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sum[i] = more[i] + alpha * sum[i];
    columns.store(W + key * n, sum);
  }
}

template <class Real, bool kPacked>
void launch_update(cudaStream_t stream, const ByColumn& X, std::size_t n, Real alpha, const Real* D,
                   Real* W, Real* sums) {
  const std::size_t pieces = ceil_divide(n, kPiece);
  const auto blocks = [&](std::size_t rows) {
    return static_cast<unsigned>(blocks_for(rows * pieces, kWarps));
  };
  sparse_update_kernel<Real, kPacked>
      <<<blocks(X.nonzeros), kThreads, 0, stream>>>(X, n, alpha, D, W, sums);
  check_launch("kernel sparse_update");
  if (X.nonzeros <= kWarp) return;
  long_columns_kernel<Real, kPacked>
      <<<blocks(ceil_divide(X.nonzeros, kWarp)), kThreads, 0, stream>>>(X, n, alpha, sums, W);
  check_launch("kernel sparse_update_long_columns");
}

cudaError_t sort(void* work, std::size_t& bytes, std::size_t nonzeros, std::size_t columns,
                 const std::uint32_t* keys, const SortMemory& memory, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(work, bytes, keys, memory.columns, memory.unsorted,
                                         memory.entries, static_cast<int>(nonzeros), 0,
                                         key_bits(columns), stream);
}

// These kernels are used instead of cuSPARSE, because they also add the bias, apply ReLU and
// accumulate into W, and touch only the rows of W that occur.
template <class Real>
class CudaSparseKernels final : public BasicSparseKernels<Real> {
 public:
  explicit CudaSparseKernels(Backend& backend) : backend_(backend), sums_(backend.stream) {}

  // Floor, for z nonzeros: 8z + (4 or 8)zn bytes of indices, values and rows of W; Y written once.
  void forward(const SparseRows<Real>& X, std::size_t n, const Real* W, const Real* bias, bool relu,
               Real* Y) override {
    backend_.batches.check(X);
    if (X.rows == 0 || n == 0) return;
    const cudaStream_t stream = backend_.use();
    const auto blocks = static_cast<unsigned>(blocks_for(X.rows * ceil_divide(n, kPiece), 1));
    if (n % kPerLane == 0 && is_aligned(W)) {
      sparse_forward_kernel<Real, true><<<blocks, kThreads, 0, stream>>>(X, n, W, bias, relu, Y);
    } else {
      sparse_forward_kernel<Real, false><<<blocks, kThreads, 0, stream>>>(X, n, W, bias, relu, Y);
    }
    check_launch("kernel sparse_forward");
  }

  // The order of additions is fixed. Atomic additions would be simpler, but arrive in another order
  // each time. So every row of W has one owner, which adds up its column's nonzeros and writes that
  // row of W. Frequent features have nonzeros in most samples: their columns are cut into runs of
  // 32, whose sums are added up afterwards in their order.
  // Floor, for z nonzeros in u columns: rows of D read z times (from the L2 cache, as a batch's D
  // fits), rows of W read and written once, 2un elements.
  void update(const SparseRows<Real>& X, std::size_t n, Real alpha, const Real* D,
              Real* W) override {
    const cudaStream_t stream = backend_.use();
    const ByColumn sorted = backend_.batches.by_column(X);
    if (sorted.nonzeros == 0 || n == 0) return;
    auto* const sums = sums_.reserve<Real>(2 * ceil_divide(sorted.nonzeros, kWarp) * n,
                                           "the sums of frequent features");
    if (n % kPerLane == 0 && is_aligned(D) && is_aligned(W) && is_aligned(sums)) {
      launch_update<Real, true>(stream, sorted, n, alpha, D, W, sums);
    } else {
      launch_update<Real, false>(stream, sorted, n, alpha, D, W, sums);
    }
  }

 private:
  Backend& backend_;
  DeviceMemory sums_;
};

const RegisterKernels<Backend, BasicSparseKernels, CudaSparseKernels> sparse_kernels;

}  // namespace

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

ByColumn sort_list(cudaStream_t stream, std::size_t n, const std::uint32_t* column,
                   std::size_t columns, const SortMemory& memory) {
  const ByColumn sorted{n, memory.columns, memory.entries};
  if (n == 0) return sorted;
  const auto blocks = static_cast<unsigned>(blocks_for(n, kThreads));
  list_numbers<<<blocks, kThreads, 0, stream>>>(n, memory.unsorted);
  check_launch("kernel list_numbers");
  std::size_t bytes = memory.work_bytes;
  check(sort(memory.work, bytes, n, columns, column, memory, stream),
        "the sort of a list of numbers");
  return sorted;
}

template ByColumn sort_by_column<float>(cudaStream_t, const SparseRows<float>&, std::size_t,
                                        const SortMemory&);
template ByColumn sort_by_column<double>(cudaStream_t, const SparseRows<double>&, std::size_t,
                                         const SortMemory&);

}  // namespace hetsgd::cuda
