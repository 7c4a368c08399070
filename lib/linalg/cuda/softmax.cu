#include <type_traits>

#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/half.cuh"
#include "linalg/cuda/softmax.hpp"

namespace hetsgd::cuda {

namespace {

constexpr int kPerLane = kPart / kWarp;

template <class Real>
__device__ Real minus_infinity() {
  return -static_cast<Real>(INFINITY);
}

__device__ float exponential(float x) { return expf(x); }
__device__ double exponential(double x) { return exp(x); }

// A lane's columns of a piece of kPart columns: kPerLane / V packs, kWarp * V columns apart.
template <class Real, int V>
struct Piece {
  static constexpr int kPacks = kPerLane / V;

  // Loads packs that begin before column `end`. Elements from there on are undefined.
  template <bool kWhole>
  __device__ void load(const Real* z, std::size_t first, std::size_t end) {
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
      const std::size_t j = first + static_cast<std::size_t>(u) * kWarp * V;
      if (kWhole || j < end) pack[u] = load_pack<Real, V>(z + j);
    }
  }

  Pack<Real, V> pack[kPacks];
};

// Processes the rows first_row to last_row of a warp's piece of columns from `begin` on. kWhole:
// all kPart columns are there.
template <class Real, int V, bool kWhole>
__device__ void piece_statistics(const LogitBlock<Real>& block, std::size_t begin, bool keep_bias,
                                 Range rows, const SoftmaxRows<Real>& out) {
  using Columns = Piece<Real, V>;
  const std::size_t lane = threadIdx.x % kWarp, first = begin + lane * V, end = block.columns;
  const auto column = [&](int u, int v) {
    return first + static_cast<std::size_t>(u) * kWarp * V + static_cast<std::size_t>(v);
  };
  Real bias[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const std::size_t j = column(i / V, i % V);
    bias[i] = block.bias != nullptr && (kWhole || j < end) ? block.bias[block.first_label + j] : 0;
  }
  Columns next;
  next.template load<kWhole>(block.Z + rows.begin * block.stride, first, end);
  for (std::size_t row = rows.begin; row < rows.end; ++row) {
    Columns z = next;
    if (row + 1 < rows.end) {
      next.template load<kWhole>(block.Z + (row + 1) * block.stride, first, end);
    }
    Real largest = minus_infinity<Real>();
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      Real& logit = z.pack[i / V].at[i % V];
      logit = kWhole || column(i / V, i % V) < end ? logit + bias[i] : minus_infinity<Real>();
      largest = LargestNumber()(largest, logit);
    }
    largest = reduce_warp(largest, LargestNumber());
    // Without a finite logit the sum must be 0 or NaN, not that of exp(-inf + inf).
    const Real base = largest == minus_infinity<Real>() ? Real(0) : largest;
    Real sum = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sum += exponential(z.pack[i / V].at[i % V] - base);
    sum = reduce_warp(sum, Sum());
    Real total = 0;
    if (out.part_total != nullptr) {
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        if (kWhole || column(i / V, i % V) < end) total += z.pack[i / V].at[i % V];
      }
      total = reduce_warp(total, Sum());
    }
    if (lane == 0) {
      const std::size_t at = row * out.parts + (block.first_label + begin) / kPart;
      out.part_max[at] = largest;
      out.part_sum[at] = sum;
      if (out.part_total != nullptr) out.part_total[at] = total;
    }
    if (!keep_bias) continue;
    Real* const to = block.Z + row * block.stride;
#pragma unroll
    for (int u = 0; u < Columns::kPacks; ++u) {
      if (kWhole || column(u, 0) < end) store_pack<Real, V>(to + column(u, 0), z.pack[u]);
    }
  }
}

// A block per kSegment columns and `rows_at_once` rows, a warp per kPart of those columns: the
// bias is read once for all rows, and a row's logits stay in registers between maximum and sum.
template <class Real, int V>
__global__ void __launch_bounds__(kThreads)
    statistics_kernel(std::size_t rows, LogitBlock<Real> block, bool keep_bias,
                      std::size_t rows_at_once, SoftmaxRows<Real> out) {
  const std::size_t segments = ceil_divide(block.columns, kSegment);
  const std::size_t tasks = segments * ceil_divide(rows, rows_at_once);
  for (std::size_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const std::size_t begin = task % segments * kSegment + threadIdx.x / kWarp * kPart;
    const std::size_t first = task / segments * rows_at_once;
    const Range range{first, smaller(rows, first + rows_at_once)};
    if (begin + kPart <= block.columns) {
      piece_statistics<Real, V, true>(block, begin, keep_bias, range, out);
    } else if (begin < block.columns) {
      piece_statistics<Real, V, false>(block, begin, keep_bias, range, out);
    }
  }
}

// The logits of the true labels that lie in the block: a warp per row.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    true_logits_kernel(SparseRows<Real> labels, LogitBlock<Real> block,
                       double* __restrict__ true_logit) {
  const std::size_t lane = threadIdx.x % kWarp;
  for (std::size_t row = blockIdx.x * kWarps + threadIdx.x / kWarp; row < labels.rows;
       row += gridDim.x * kWarps) {
    const Real* const z = block.Z + row * block.stride;
    const std::uint64_t end = labels.begin[row + 1], last = block.first_label + block.columns;
    double sum = 0;
    for (std::uint64_t k =
             lower_bound(labels.index, labels.begin[row], end, block.first_label) + lane;
         k < end && labels.index[k] < last; k += kWarp) {
      const std::size_t label = labels.index[k];
      const Real logit = z[label - block.first_label];
      sum += static_cast<double>(block.bias != nullptr ? logit + block.bias[label] : logit);
    }
    sum = reduce_warp(sum, Sum());
    if (lane == 0) true_logit[row] = block.first_label == 0 ? sum : true_logit[row] + sum;
  }
}

// The mean of the row whose pieces begin at `first`. All threads of the block call it.
template <class Real>
__device__ double mean_logit(const SoftmaxRows<Real>& rows, std::size_t first, double* scratch) {
  double total = 0;
  for (std::size_t p = threadIdx.x; p < rows.parts; p += kThreads) {
    total += static_cast<double>(rows.part_total[first + p]);
  }
  return reduce_block(total, Sum(), scratch) / static_cast<double>(rows.labels);
}

// A block per row.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(SparseRows<Real> labels, Real scale, SoftmaxRows<Real> rows) {
  __shared__ Real real_scratch[kWarps];
  __shared__ double scratch[kWarps];
  for (std::size_t row = blockIdx.x; row < labels.rows; row += gridDim.x) {
    const std::size_t first = row * rows.parts;
    Real largest = minus_infinity<Real>();
    for (std::size_t p = threadIdx.x; p < rows.parts; p += kThreads) {
      largest = LargestNumber()(largest, rows.part_max[first + p]);
    }
    largest = reduce_block(largest, LargestNumber(), real_scratch);
    double sum = 0;
    for (std::size_t p = threadIdx.x; p < rows.parts; p += kThreads) {
      const Real part_max = rows.part_max[first + p];
      // A piece without a finite logit holds 0 or NaN, so its weight does not matter.
      const double weight = part_max == minus_infinity<Real>()
                                ? 1.0
                                : exp(static_cast<double>(part_max) - static_cast<double>(largest));
      sum += weight * static_cast<double>(rows.part_sum[first + p]);
    }
    sum = reduce_block(sum, Sum(), scratch);
    const double mean = rows.part_total == nullptr ? 0 : mean_logit(rows, first, scratch);
    if (threadIdx.x != 0) continue;
    const std::uint64_t count = labels.begin[row + 1] - labels.begin[row];
    double target = rows.true_logit[row] / static_cast<double>(count);
    if (rows.part_total != nullptr) {
      const auto share = static_cast<double>(rows.smoothing);
      target = (1 - share) * target + share * mean;
    }
    rows.loss[row] = count == 0 ? 0.0 : static_cast<double>(largest) + log(sum) - target;
    rows.max[row] = largest;
    rows.factor[row] = static_cast<Real>(static_cast<double>(scale) / sum);
  }
}

// The values that turn a row's logits into probabilities, and its true labels among a block's
// columns.
template <class Real>
struct alignas(16) RowFacts {
  Real max, factor, target;
  std::uint32_t hits;
  std::uint64_t first;
};
constexpr std::uint32_t kUnlabelled = 0xFFFFFFFFU;  // instead of hits: the row has no gradient

template <class Real>
__device__ RowFacts<Real> facts_of(const SparseRows<Real>& labels, const SoftmaxRows<Real>& rows,
                                   Real scale, std::size_t row, Range columns) {
  const std::uint64_t from = labels.begin[row], to = labels.begin[row + 1];
  if (from == to) return {Real(0), Real(0), Real(0), kUnlabelled, 0};
  const std::uint64_t first = lower_bound(labels.index, from, to, columns.begin);
  std::uint32_t hits = 0;
  while (first + hits < to && labels.index[first + hits] < columns.end) ++hits;
  const Real target = (1 - rows.smoothing) * scale / static_cast<Real>(to - from);
  return {rows.max[row], rows.factor[row], target, hits, first};
}

// Corrects the gradient d of a row that has true labels here, or no labels at all. `label` is the
// label of d[0].
template <class Real, int V>
__device__ void correct(const SparseRows<Real>& labels, const RowFacts<Real>& row,
                        std::uint64_t label, Pack<Real, V>& d) {
  if (row.hits == kUnlabelled) {
    d = {};
    return;
  }
  for (std::uint64_t k = row.first; k < row.first + row.hits; ++k) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (labels.index[k] == label + static_cast<std::uint64_t>(v)) d.at[v] -= row.target;
    }
  }
}

// Where a block's gradient goes: a pack of a row, whose first column is `column`.
template <class Real>
struct InPlace {
  LogitBlock<Real> block;
  template <int V>
  __device__ void put(std::size_t row, std::size_t column, const Pack<Real, V>& d) const {
    store_pack<Real, V>(block.Z + row * block.stride + column, d);
  }
};
struct AsHalves {
  SplitGradient to;
  template <int V>
  __device__ void put(std::size_t row, std::size_t column, const Pack<float, V>& d) const {
    Pack<HalfBits, V> hi, lo;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const SplitNumber number = split_number(d.at[v] * to.scale);
      hi.at[v] = number.hi;
      lo.at[v] = number.lo;
    }
    HalfBits* const first = to.halves + row * to.stride + column;
    store_pack<HalfBits, V>(first, lo);
    store_pack<HalfBits, V>(first + to.rows * to.stride, hi);
    store_pack<HalfBits, V>(first + 2 * to.rows * to.stride, hi);
  }
};

// A block per kThreads * V columns and group of rows. A thread walks down its columns, so that it
// alone adds them up.
template <class Real, int V, class To>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(SparseRows<Real> labels, LogitBlock<Real> block, Real scale,
                    SoftmaxRows<Real> rows, std::size_t groups, std::size_t stride,
                    Real* __restrict__ partials, To to) {
  // Packs that a thread reads before it writes any of them. A load after a store to the same array
  // waits for it, which would leave each thread with one load at a time.
  constexpr std::size_t kAtOnce = V == 1 ? 8 : 4;
  __shared__ RowFacts<Real> shared[kThreads];
  const std::size_t width = kThreads * V, tiles = ceil_divide(block.columns, width);
  // The part of a target that smoothing gives every label.
  const Real share =
      rows.smoothing == 0 ? Real(0) : rows.smoothing * scale / static_cast<Real>(rows.labels);
  for (std::size_t task = blockIdx.x; task < tiles * groups; task += gridDim.x) {
    const std::size_t begin = task % tiles * width, column = begin + threadIdx.x * V;
    const std::size_t label = block.first_label + column;
    const Range range{block.first_label + begin, block.first_label + begin + width};
    const Range group = group_of(labels.rows, groups, task / tiles);
    const bool active = column < block.columns;
    Real b[V], sum[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const auto at = static_cast<std::size_t>(v);
      b[v] = column + at < block.columns && block.bias != nullptr ? block.bias[label + at] : 0;
      sum[v] = 0;
    }
    for (std::size_t base = group.begin; base < group.end; base += kThreads) {
      const std::size_t count = smaller(group.end - base, kThreads);
      __syncthreads();  // all threads have read the rows
      if (threadIdx.x < count) {
        shared[threadIdx.x] = facts_of(labels, rows, scale, base + threadIdx.x, range);
      }
      __syncthreads();
      if (!active) continue;
      Real* z = block.Z + base * block.stride + column;
      for (std::size_t first = 0; first < count; first += kAtOnce) {
        Pack<Real, V> logit[kAtOnce];
#pragma unroll
        for (std::size_t u = 0; u < kAtOnce; ++u) {
          if (first + u < count) logit[u] = load_pack<Real, V>(z + u * block.stride);
        }
#pragma unroll
        for (std::size_t u = 0; u < kAtOnce; ++u) {
          if (first + u >= count) break;
          const RowFacts<Real>& row = shared[first + u];
          Pack<Real, V> d;
#pragma unroll
          for (int v = 0; v < V; ++v) {
            d.at[v] = exponential(logit[u].at[v] + b[v] - row.max) * row.factor - share;
          }
          if (row.hits != 0) correct(labels, row, label, d);
          to.put(base + first + u, column, d);
#pragma unroll
          for (int v = 0; v < V; ++v) sum[v] += d.at[v];
        }
        z += kAtOnce * block.stride;
      }
    }
    if (partials == nullptr) continue;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const auto at = static_cast<std::size_t>(v);
      if (column + at < block.columns) partials[task / tiles * stride + label + at] = sum[v];
    }
  }
}

template <class Real>
struct RowCopy {
  CopyRows which;
  const std::uint32_t* number;
  std::size_t n;
  const Real* from;
  Real* to;
  __device__ void operator()(std::size_t r, std::size_t j) const {
    const std::size_t numbered = number[r] * n + j, own = r * n + j;
    if (which == CopyRows::gather) {
      to[own] = from[numbered];
    } else {
      to[numbered] = from[own];
    }
  }
};

// A warp per row; its lanes' losses are added in a fixed order.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    sigmoid_kernel(SparseRows<Real> labels, std::size_t n, const Real* __restrict__ bias,
                   bool gradient, Real scale, Real* __restrict__ Z, double* __restrict__ losses) {
  const std::size_t lane = threadIdx.x % kWarp;
  for (std::size_t r = blockIdx.x * kWarps + threadIdx.x / kWarp; r < labels.rows;
       r += gridDim.x * kWarps) {
    double loss = 0;
    for (std::size_t l = lane; l < n; l += kWarp) {
      const std::uint64_t end = labels.begin[r + 1];
      const std::uint64_t at = lower_bound(labels.index, labels.begin[r], end, l);
      const bool positive = at < end && labels.index[at] == l;
      const Real logit = bias != nullptr ? Z[r * n + l] + bias[l] : Z[r * n + l];
      const auto z = static_cast<double>(logit);
      // log(1 + e^-z) = max(-z, 0) + log(1 + e^-|z|), so that nothing overflows. NaN is not below
      // 0.
      const double margin = positive ? -z : z;
      const double small = exp(-fabs(z));
      loss += (margin < 0 ? 0.0 : margin) + log1p(small);
      const double sigmoid = z < 0 ? small / (1 + small) : 1 / (1 + small);
      Z[r * n + l] = gradient ? scale * static_cast<Real>(positive ? sigmoid - 1 : sigmoid) : logit;
    }
    loss = reduce_warp(loss, Sum());
    if (lane == 0) losses[r] = loss;
  }
}

template <class Real>
bool packs_fit(const LogitBlock<Real>& block) {
  return block.stride % kPackOf<Real> == 0 && is_aligned(block.Z);
}

}  // namespace

template <class Real>
void softmax_statistics(cudaStream_t stream, const SparseRows<Real>& labels,
                        const LogitBlock<Real>& block, bool keep_bias,
                        const SoftmaxRows<Real>& rows) {
  if (labels.rows == 0 || block.columns == 0) return;
  launch(stream, labels.rows, kWarps, "kernel softmax_true_logits", true_logits_kernel<Real>,
         labels, block, rows.true_logit);
  const std::size_t at_once = statistics_rows(labels.rows, block.columns);
  const std::size_t tasks =
      ceil_divide(labels.rows, at_once) * ceil_divide(block.columns, kSegment);
  const bool keep = keep_bias && block.bias != nullptr;
  launch(stream, tasks, 1, "kernel softmax_statistics",
         packs_fit(block) ? statistics_kernel<Real, kPackOf<Real>> : statistics_kernel<Real, 1>,
         labels.rows, block, keep, at_once, rows);
}

template <class Real>
void softmax_combine(cudaStream_t stream, const SparseRows<Real>& labels, Real scale,
                     const SoftmaxRows<Real>& rows) {
  launch(stream, labels.rows, 1, "kernel softmax_combine", combine_kernel<Real>, labels, scale,
         rows);
}

template <class Real>
void softmax_gradient(cudaStream_t stream, const SparseRows<Real>& labels,
                      const LogitBlock<Real>& block, Real scale, const SoftmaxRows<Real>& rows,
                      std::size_t groups, std::size_t stride, Real* partials,
                      const SplitGradient& halves) {
  const std::size_t width = kThreads * (packs_fit(block) ? kPackOf<Real> : 1);
  const std::size_t tasks = ceil_divide(block.columns, width) * groups;
  const auto launch_on = [&](auto kernel, const auto& out) {
    launch(stream, tasks, 1, "kernel softmax_gradient", kernel, labels, block, scale, rows, groups,
           stride, partials, out);
  };
  if (halves.halves != nullptr) {
    if constexpr (std::is_same_v<Real, float>) {
      launch_on(gradient_kernel<float, 4, AsHalves>, AsHalves{halves});
    }
  } else {
    using To = InPlace<Real>;
    launch_on(
        packs_fit(block) ? gradient_kernel<Real, kPackOf<Real>, To> : gradient_kernel<Real, 1, To>,
        To{block});
  }
}

template <class Real>
void copy_rows(cudaStream_t stream, CopyRows which, std::size_t count, const std::uint32_t* number,
               std::size_t n, const Real* from, Real* to) {
  launch_rowwise(stream, count, n, RowCopy<Real>{which, number, n, from, to}, "kernel copy_rows");
}

template <class Real>
void sigmoid_rows(cudaStream_t stream, const SparseRows<Real>& labels, std::size_t n,
                  const Real* bias, bool gradient, Real scale, Real* Z, double* losses) {
  launch(stream, labels.rows, kWarps, "kernel sigmoid_rows", sigmoid_kernel<Real>, labels, n, bias,
         gradient, scale, Z, losses);
}

#define HETSGD_INSTANTIATE(Real)                                                                   \
  template void softmax_statistics<Real>(cudaStream_t, const SparseRows<Real>&,                    \
                                         const LogitBlock<Real>&, bool, const SoftmaxRows<Real>&); \
  template void softmax_combine<Real>(cudaStream_t, const SparseRows<Real>&, Real,                 \
                                      const SoftmaxRows<Real>&);                                   \
  template void softmax_gradient<Real>(cudaStream_t, const SparseRows<Real>&,                      \
                                       const LogitBlock<Real>&, Real, const SoftmaxRows<Real>&,    \
                                       std::size_t, std::size_t, Real*, const SplitGradient&);     \
  template void copy_rows<Real>(cudaStream_t, CopyRows, std::size_t, const std::uint32_t*,         \
                                std::size_t, const Real*, Real*);                                  \
  template void sigmoid_rows<Real>(cudaStream_t, const SparseRows<Real>&, std::size_t,             \
                                   const Real*, bool, Real, Real*, double*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
