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

// As store_pack, which nvcc may cut into stores of one element each where it stands in a branch.
template <class Real, int V>
__device__ void store_at_once(Real* to, const Pack<Real, V>& pack) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    uint4 bits;
    memcpy(&bits, &pack, sizeof(bits));
    return __stwb(reinterpret_cast<uint4*>(to), bits);
  }
#endif
  store_pack<Real, V>(to, pack);
}

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
      if (column[i / V] < n) store_at_once<Real, V>(row + column[i / V], pack);
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

// A run is kWarp of the nonzeros by column, so that frequent columns are divided among warps.
// Blocks are small: even a batch with few runs should have blocks for all multiprocessors.
constexpr std::size_t kUpdateWarps = 2;

// Adds up the column that begins in `run` and goes on in later runs, in their order, from what each
// run left in `sums`.
template <class Real, bool kPacked>
__device__ void add_up_runs(const ByColumn& X, std::size_t run, std::uint32_t key,
                            const Columns<Real, kPacked>& columns, std::size_t n, Real alpha,
                            const Real* sums, Real* w) {
  constexpr int kAtOnce = 8;
  const std::size_t lane = threadIdx.x % kWarp, runs = ceil_divide(X.nonzeros, kWarp);
  Real old[kPerLane], sum[kPerLane];
  columns.load(w, old);
  columns.load(sums + (2 * run + 1) * n, sum);
  int count = static_cast<int>(kWarp);
  for (std::size_t r = run + 1; count == static_cast<int>(kWarp); r += kWarp) {
    const std::size_t mine = r + lane;
    count = __popc(__ballot_sync(kAll, mine < runs && X.columns[mine * kWarp] == key));
    for (int first = 0; first < count; first += kAtOnce) {
      Real more[kAtOnce][kPerLane];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        if (first + u < count) {
          columns.load(sums + 2 * (r + static_cast<std::size_t>(first + u)) * n, more[u]);
        }
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        if (first + u >= count) break;
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) sum[i] += more[u][i];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) sum[i] = old[i] + alpha * sum[i];
  columns.store(w, sum);
}

// A warp per run and piece of kPiece columns of W. Columns of X that lie within the run are written
// to W at once. For a longer column every run leaves its sum, at 2 run + 1 where the column begins
// and at 2 run in later runs. The run that comes last adds them up. `arrived` tells which one that
// is. It has a counter for each run that a column begins in: later runs add one, the run itself
// subtracts their number. So the counter is 0 again when all have come, and at no time before.
template <class Real, bool kPacked>
__global__ void __launch_bounds__(kUpdateWarps* kWarp)
    sparse_update_kernel(ByColumn X, std::size_t n, Real alpha, const Real* __restrict__ D,
                         Real* __restrict__ W, Real* __restrict__ sums,
                         unsigned* __restrict__ arrived) {
  constexpr int kAtOnce = sizeof(Real) == sizeof(float) ? 8 : 4;
  const std::size_t lane = threadIdx.x % kWarp;
  const std::size_t runs = ceil_divide(X.nonzeros, kWarp), pieces = ceil_divide(n, kPiece);
  for (std::size_t task = blockIdx.x * kUpdateWarps + threadIdx.x / kWarp; task < runs * pieces;
       task += gridDim.x * kUpdateWarps) {
    const Tile tile = tile_of(task, n, kPiece);
    const std::size_t run = tile.row, begin = run * kWarp;
    const int count = static_cast<int>(smaller(X.nonzeros - begin, kWarp));
    const int place = static_cast<int>(lane);
    // Lanes beyond the last nonzero have that one once more, and never write.
    const std::size_t at = smaller(begin + lane, X.nonzeros - 1);
    const std::size_t next = (run + 1 + lane) * kWarp;
    const std::uint32_t mine = X.columns[at];
    const Entry entry = X.entries[at];
    // The last column of earlier runs, from the one before on backwards, and the first of later
    // ones.
    const std::uint32_t earlier = lane < run ? X.columns[(run - lane) * kWarp - 1] : 0;
    const std::uint32_t later = next < X.nonzeros ? X.columns[next] : 0;

    const std::uint32_t front = __shfl_sync(kAll, mine, 0);
    const std::uint32_t back = __shfl_sync(kAll, mine, static_cast<int>(kWarp) - 1);
    const std::uint32_t left = __shfl_sync(kAll, mine, (place + 31) % 32);
    const std::uint32_t right = __shfl_sync(kAll, mine, (place + 1) % 32);
    const unsigned heads = __ballot_sync(kAll, place == 0 || mine != left);
    const unsigned tails =
        __ballot_sync(kAll, place + 1 == count || (place + 1 < count && mine != right));
    int before = __popc(__ballot_sync(kAll, lane < run && earlier == front));
    int after = __popc(__ballot_sync(kAll, next < X.nonzeros && later == back));
    const bool comes = before > 0, goes = after > 0;
    // The tails of columns that neither come from an earlier run nor go on in a later one.
    unsigned whole = tails;
    if (comes) whole &= whole - 1;
    if (goes) whole &= ~(1U << (kWarp - 1));
    Real* const left_sums = sums + 2 * run * n;

    const Columns<Real, kPacked> columns(tile.columns.begin, n);
    Real sum[kPerLane] = {};
    int first = 0;
    do {
      Real d[kAtOnce][kPerLane], w[kAtOnce][kPerLane];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const std::size_t row = __shfl_sync(kAll, entry.row, first + u);
        const std::size_t key = __shfl_sync(kAll, mine, first + u);
        columns.load(D + row * n, d[u]);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) w[u][i] = 0;
        if ((whole >> (first + u) & 1U) != 0) columns.load(W + key * n, w[u]);
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int j = first + u;
        const std::size_t key = __shfl_sync(kAll, mine, j);
        const auto x = static_cast<Real>(__shfl_sync(kAll, entry.value, j));
        const bool begins = (heads >> j & 1U) != 0;
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) sum[i] = (begins ? Real(0) : sum[i]) + x * d[u][i];
        if ((tails >> j & 1U) == 0) continue;
        const bool is_whole = (whole >> j & 1U) != 0, is_first = (tails & ((1U << j) - 1)) == 0;
        const Real factor = is_whole ? alpha : Real(1);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) w[u][i] += factor * sum[i];
        columns.store(is_whole ? W + key * n : left_sums + (comes && is_first ? 0 : n), w[u]);
      }
      first += kAtOnce;
    } while (first < count);
    if (!comes && !goes) continue;  // the whole warp

    // Columns that reach farther than kWarp runs are rare.
    std::size_t start = run - static_cast<std::size_t>(before);
    while (before == static_cast<int>(kWarp)) {
      before = __popc(
          __ballot_sync(kAll, lane < start && X.columns[(start - lane) * kWarp - 1] == front));
      start -= static_cast<std::size_t>(before);
    }
    const bool starts = goes && !(comes && heads == 1U);
    unsigned others = static_cast<unsigned>(after);
    while (starts && after == static_cast<int>(kWarp)) {
      const std::size_t its = next + others * kWarp;
      after = __popc(__ballot_sync(kAll, its < X.nonzeros && X.columns[its] == back));
      others += static_cast<unsigned>(after);
    }
    __threadfence();
    __syncwarp();
    unsigned missing = 1;
    if (comes && lane == 0) {
      missing = atomicAdd(&arrived[start * pieces + task % pieces], 1U) + 1;
    }
    if (starts && lane == 1) missing = atomicAdd(&arrived[task], 0U - others) - others;
    const unsigned last = __ballot_sync(kAll, missing == 0);
    if (last == 0) continue;
    __threadfence();
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      if ((last >> which & 1U) == 0) continue;
      const std::uint32_t key = which == 0 ? front : back;
      add_up_runs(X, which == 0 ? start : run, key, columns, n, alpha, sums, W + key * n);
    }
  }
}

template <class Real, bool kPacked>
void launch_update(cudaStream_t stream, const ByColumn& X, std::size_t n, Real alpha, const Real* D,
                   Real* W, Real* sums, unsigned* arrived) {
  const std::size_t tasks = ceil_divide(X.nonzeros, kWarp) * ceil_divide(n, kPiece);
  const auto blocks = static_cast<unsigned>(blocks_for(tasks, kUpdateWarps));
  sparse_update_kernel<Real, kPacked>
      <<<blocks, kUpdateWarps * kWarp, 0, stream>>>(X, n, alpha, D, W, sums, arrived);
  check_launch("kernel sparse_update");
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
  explicit CudaSparseKernels(Backend& backend)
      : backend_(backend), sums_(backend.stream), arrived_(backend.stream) {}

  // Floor, for z nonzeros: 8z + (4 or 8)zn bytes of indices, values and rows of W; Y written once.
  void forward(const SparseRows<Real>& X, std::size_t n, const Real* W, const Real* bias, bool relu,
               Real* Y) override {
    backend_.batches.check(X);
    const bool packed = n % kPerLane == 0 && is_aligned(W);
    launch(backend_.use(), X.rows * ceil_divide(n, kPiece), 1, "kernel sparse_forward",
           packed ? sparse_forward_kernel<Real, true> : sparse_forward_kernel<Real, false>, X, n, W,
           bias, relu, Y);
  }

  // The order of additions is fixed. Atomic additions would be simpler, but arrive in another order
  // each time. So every row of W has one owner, which adds up its column's nonzeros and writes that
  // row of W. Frequent features have nonzeros in most samples: their columns are cut into runs of
  // 32, whose sums are added up afterwards in their order, in the same launch: a second one would
  // take the host longer than small batches take the GPU.
  // Floor, for z nonzeros in u columns: rows of D read z times (from the L2 cache, as a batch's D
  // fits), rows of W read and written once, 2un elements.
  void update(const SparseRows<Real>& X, std::size_t n, Real alpha, const Real* D,
              Real* W) override {
    const cudaStream_t stream = backend_.use();
    const ByColumn sorted = backend_.batches.by_column(X);
    if (sorted.nonzeros == 0 || n == 0) return;
    const std::size_t runs = ceil_divide(sorted.nonzeros, kWarp);
    auto* const sums = sums_.reserve<Real>(2 * runs * n, "the sums of frequent features");
    unsigned* const arrived = arrived_.reserve(runs * ceil_divide(n, kPiece));
    if (n % kPerLane == 0 && is_aligned(D) && is_aligned(W) && is_aligned(sums)) {
      launch_update<Real, true>(stream, sorted, n, alpha, D, W, sums, arrived);
    } else {
      launch_update<Real, false>(stream, sorted, n, alpha, D, W, sums, arrived);
    }
  }

 private:
  Backend& backend_;
  DeviceMemory sums_;
  Counters arrived_;
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
  launch(stream, X.rows, kWarps, "kernel list_entries", list_entries<Real>, X, memory.unsorted);
  std::size_t bytes = memory.work_bytes;
  check(sort(memory.work, bytes, nonzeros, X.columns, X.index, memory, stream),
        "the sort of nonzeros by column");
  return sorted;
}

ByColumn sort_list(cudaStream_t stream, std::size_t n, const std::uint32_t* column,
                   std::size_t columns, const SortMemory& memory) {
  const ByColumn sorted{n, memory.columns, memory.entries};
  if (n == 0) return sorted;
  launch(stream, n, kThreads, "kernel list_numbers", list_numbers, n, memory.unsorted);
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
