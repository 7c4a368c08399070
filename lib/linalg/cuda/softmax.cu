#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/softmax.hpp"

namespace hetsgd::cuda {

namespace {

constexpr std::size_t kPerThread = kSegment / kThreads;
// Numbers that a thread reads before it writes any of them: a load behind a store to the same array
// waits for it, and would leave each thread with one load at a time.
constexpr std::size_t kRowsAtOnce = 8;

template <class Real>
__device__ Real minus_infinity() {
  return -static_cast<Real>(INFINITY);
}

__device__ float exponential(float x) { return expf(x); }
__device__ double exponential(double x) { return exp(x); }

// A block per row and segment; a thread keeps its logits in registers between maximum and sum.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    statistics_kernel(SparseRows<Real> labels, LogitBlock<Real> block, bool keep_bias,
                      SoftmaxRows<Real> rows) {
  __shared__ Real real_scratch[kWarps];
  __shared__ double scratch[kWarps];
  const Real* const bias = block.bias != nullptr ? block.bias + block.first_label : nullptr;
  const std::size_t first_part = block.first_label / kSegment;
  const std::size_t tasks = labels.rows * ceil_divide(block.columns, kSegment);
  for (std::size_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Tile tile = tile_of(task, block.columns, kSegment);
    Real* const z = block.Z + tile.row * block.columns;
    Real logit[kPerThread];
    Real largest = minus_infinity<Real>();
#pragma unroll
    for (std::size_t u = 0; u < kPerThread; ++u) {
      const std::size_t j = tile.columns.begin + u * kThreads + threadIdx.x;
      logit[u] = minus_infinity<Real>();
      if (j < tile.columns.end) {
        logit[u] = bias != nullptr ? z[j] + bias[j] : z[j];
        largest = Largest()(largest, logit[u]);
      }
    }
    largest = reduce_block(largest, Largest(), real_scratch);
    // Without a finite logit the sum is 0 or NaN, not exp(-inf + inf).
    const Real base = largest == minus_infinity<Real>() ? Real(0) : largest;
    Real sum = 0;
#pragma unroll
    for (std::size_t u = 0; u < kPerThread; ++u) sum += exponential(logit[u] - base);

    // The true labels of the segment; read before any of them is overwritten below.
    double true_logits = 0;
    const std::uint64_t end = labels.begin[tile.row + 1];
    const std::uint64_t last = block.first_label + tile.columns.end;
    for (std::uint64_t k = lower_bound(labels.index, labels.begin[tile.row], end,
                                       block.first_label + tile.columns.begin) +
                           threadIdx.x;
         k < end && labels.index[k] < last; k += kThreads) {
      const std::size_t j = labels.index[k] - block.first_label;
      true_logits += static_cast<double>(bias != nullptr ? z[j] + bias[j] : z[j]);
    }
    const double total = reduce_block(static_cast<double>(sum), Sum(), scratch);
    true_logits = reduce_block(true_logits, Sum(), scratch);
    if (threadIdx.x == 0) {
      const std::size_t at = tile.row * rows.parts + first_part + tile.columns.begin / kSegment;
      rows.part_max[at] = largest;
      rows.part_sum[at] = total;
      rows.part_true[at] = true_logits;
    }
    if (!keep_bias || bias == nullptr) continue;
#pragma unroll
    for (std::size_t u = 0; u < kPerThread; ++u) {
      const std::size_t j = tile.columns.begin + u * kThreads + threadIdx.x;
      if (j < tile.columns.end) z[j] = logit[u];
    }
  }
}

// A warp per row.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(SparseRows<Real> labels, Real scale, SoftmaxRows<Real> rows) {
  const std::size_t lane = threadIdx.x % kWarp;
  for (std::size_t row = blockIdx.x * kWarps + threadIdx.x / kWarp; row < labels.rows;
       row += gridDim.x * kWarps) {
    const std::size_t first = row * rows.parts;
    Real largest = minus_infinity<Real>();
    for (std::size_t p = lane; p < rows.parts; p += kWarp) {
      largest = Largest()(largest, rows.part_max[first + p]);
    }
    largest = reduce_warp(largest, Largest());
    double sum = 0, true_logits = 0;
    for (std::size_t p = lane; p < rows.parts; p += kWarp) {
      const Real part_max = rows.part_max[first + p];
      // A piece without a finite logit holds 0 or NaN, of any weight.
      const double weight = part_max == minus_infinity<Real>()
                                ? 1.0
                                : exp(static_cast<double>(part_max) - static_cast<double>(largest));
      sum += weight * rows.part_sum[first + p];
      true_logits += rows.part_true[first + p];
    }
    sum = reduce_warp(sum, Sum());
    true_logits = reduce_warp(true_logits, Sum());
    if (lane != 0) continue;
    const std::uint64_t count = labels.begin[row + 1] - labels.begin[row];
    rows.loss[row] = count == 0 ? 0.0
                                : static_cast<double>(largest) + log(sum) -
                                      true_logits / static_cast<double>(count);
    rows.max[row] = largest;
    rows.factor[row] = static_cast<Real>(static_cast<double>(scale) / sum);
  }
}

// A block per kThreads columns and group of rows: a thread walks down its column, so that it alone
// adds the column up. The few true labels that fall into the block's columns are looked up once per
// row.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(SparseRows<Real> labels, LogitBlock<Real> block, Real scale,
                    SoftmaxRows<Real> rows, std::size_t groups, std::size_t stride,
                    Real* __restrict__ partials) {
  struct Row {
    std::uint64_t first, end;  // true labels from the block's first column on; all of the row's
    Real max, factor, target;
    bool labelled;
  };
  __shared__ Row shared[kThreads];
  const Real* const bias = block.bias != nullptr ? block.bias + block.first_label : nullptr;
  const std::size_t tiles = ceil_divide(block.columns, kThreads);
  for (std::size_t task = blockIdx.x; task < tiles * groups; task += gridDim.x) {
    const std::size_t begin = task % tiles * kThreads, column = begin + threadIdx.x;
    const std::uint64_t label = block.first_label + column;
    const std::uint64_t last = block.first_label + begin + kThreads;
    const Range group = group_of(labels.rows, groups, task / tiles);
    const bool active = column < block.columns;
    const Real b = active && bias != nullptr ? bias[column] : Real(0);
    Real sum = 0;
    for (std::size_t base = group.begin; base < group.end; base += kThreads) {
      const std::size_t count = smaller(group.end - base, kThreads);
      __syncthreads();  // nobody reads the rows before any more
      if (threadIdx.x < count) {
        const std::size_t r = base + threadIdx.x;
        const std::uint64_t from = labels.begin[r], to = labels.begin[r + 1];
        shared[threadIdx.x] = {lower_bound(labels.index, from, to, block.first_label + begin),
                               to,
                               rows.max[r],
                               rows.factor[r],
                               scale / static_cast<Real>(to - from),
                               from < to};
      }
      __syncthreads();
      if (!active) continue;
      Real* z = block.Z + base * block.columns + column;
      for (std::size_t first = 0; first < count; first += kRowsAtOnce) {
        Real logit[kRowsAtOnce];
#pragma unroll
        for (std::size_t u = 0; u < kRowsAtOnce; ++u) {
          logit[u] = first + u < count ? z[u * block.columns] : Real(0);
        }
#pragma unroll
        for (std::size_t u = 0; u < kRowsAtOnce; ++u) {
          if (first + u >= count) break;
          const Row& row = shared[first + u];
          Real d = exponential(logit[u] + b - row.max) * row.factor;
          for (std::uint64_t k = row.first; k < row.end && labels.index[k] < last; ++k) {
            if (labels.index[k] == label) d -= row.target;
          }
          if (!row.labelled) d = Real(0);
          z[u * block.columns] = d;
          sum += d;
        }
        z += kRowsAtOnce * block.columns;
      }
    }
    if (active && partials != nullptr) {
      partials[task / tiles * stride + block.first_label + column] = sum;
    }
  }
}

}  // namespace

template <class Real>
void softmax_statistics(cudaStream_t stream, const SparseRows<Real>& labels,
                        const LogitBlock<Real>& block, bool keep_bias,
                        const SoftmaxRows<Real>& rows) {
  const std::size_t tasks = labels.rows * ceil_divide(block.columns, kSegment);
  if (tasks == 0) return;
  statistics_kernel<<<static_cast<unsigned>(blocks_for(tasks, 1)), kThreads, 0, stream>>>(
      labels, block, keep_bias, rows);
  check_launch("kernel softmax_statistics");
}

template <class Real>
void softmax_combine(cudaStream_t stream, const SparseRows<Real>& labels, Real scale,
                     const SoftmaxRows<Real>& rows) {
  if (labels.rows == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(labels.rows, kWarps));
  combine_kernel<<<blocks, kThreads, 0, stream>>>(labels, scale, rows);
  check_launch("kernel softmax_combine");
}

template <class Real>
void softmax_gradient(cudaStream_t stream, const SparseRows<Real>& labels,
                      const LogitBlock<Real>& block, Real scale, const SoftmaxRows<Real>& rows,
                      std::size_t groups, std::size_t stride, Real* partials) {
  const std::size_t tasks = ceil_divide(block.columns, kThreads) * groups;
  if (tasks == 0) return;
  gradient_kernel<<<static_cast<unsigned>(blocks_for(tasks, 1)), kThreads, 0, stream>>>(
      labels, block, scale, rows, groups, stride, partials);
  check_launch("kernel softmax_gradient");
}

#define HETSGD_INSTANTIATE(Real)                                                                   \
  template void softmax_statistics<Real>(cudaStream_t, const SparseRows<Real>&,                    \
                                         const LogitBlock<Real>&, bool, const SoftmaxRows<Real>&); \
  template void softmax_combine<Real>(cudaStream_t, const SparseRows<Real>&, Real,                 \
                                      const SoftmaxRows<Real>&);                                   \
  template void softmax_gradient<Real>(cudaStream_t, const SparseRows<Real>&,                      \
                                       const LogitBlock<Real>&, Real, const SoftmaxRows<Real>&,    \
                                       std::size_t, std::size_t, Real*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
