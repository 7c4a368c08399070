// The table kernels of a GPU, with the bits of the CPU's. A thread adds up a column of a row in the
// order that defines the sum, so the lookups of a hot row are not divided as in embedding.cu. Its
// loads do not wait for its additions: 8,192 lookups of one row take tens of microseconds.
//
// Floor, in bytes, for n rows of C elements: gather 4n (1 + 2C); update of r distinct rows by a
// rule with q state vectors 4n (1 + C) + 8rC (1 + q), in whole sectors of 32 bytes.
#include <numeric>
#include <type_traits>
#include <variant>
#include <vector>

#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/index.hpp"
#include "linalg/cuda/list_sort.hpp"
#include "linalg/cuda/lookups.cuh"
#include "linalg/cuda/resources.hpp"
#include "linalg/table_kernels.hpp"

namespace hetsgd::cuda {

// Element by element over many short rows. Neighbouring threads have neighbouring elements, of
// whatever row, so that no lane of a warp is idle if rows have less than 32 elements. Longer rows
// should use launch_rowwise, which needs no division.

// Calls f(row, column) for all columns of rows 0 to count - 1. Index must hold count * n elements.
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
  // The limit leaves room for a last step beyond the elements.
  constexpr std::size_t kMost32 = (std::size_t{1} << 32) - kMostBlocks * kThreads;
  if (count * n < kMost32) {
    launch(stream, count * n, kThreads, name, flat<std::uint32_t, F>,
           static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(n), f);
  } else {
    launch(stream, count * n, kThreads, name, flat<std::uint64_t, F>, count, n, f);
  }
}

namespace {

// A product that is not fused with an addition.
__device__ inline float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double rounded_product(double a, double b) { return __dmul_rn(a, b); }

// A row on the device, or in host memory.
template <class Real>
struct PlacedRow {
  Real* w;
  Real* state[2];
};
template <class Real>
__device__ PlacedRow<Real> place_row(const ShardRows<Real>& shard, std::size_t row) {
  const bool here = row < shard.on_device;
  const std::size_t at = (here ? row : row - shard.on_device) * shard.stride;
  PlacedRow<Real> placed{(here ? shard.w : shard.host_w) + at, {nullptr, nullptr}};
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    Real* const state = here ? shard.state[s] : shard.host_state[s];
    if (state != nullptr) placed.state[s] = state + at;
  }
  return placed;
}

template <class Real>
struct PutShardRows {
  ShardRows<Real> shard;
  const std::uint32_t* row;
  const Real* values;
  __device__ void operator()(std::size_t i, std::size_t j) const {
    const PlacedRow<Real> to = place_row(shard, row[i]);
    to.w[j] = j < shard.width ? values[i * shard.width + j] : Real(0);
    if (to.state[0] != nullptr) to.state[0][j] = 0;
    if (to.state[1] != nullptr) to.state[1][j] = 0;
  }
};

// V elements at once.
template <class Real, int V>
struct GatherShardRows {
  ShardRows<Real> shard;
  const std::uint32_t* row;
  Real* out;
  __device__ void operator()(std::size_t i, std::size_t pack) const {
    const std::size_t j = pack * V;
    store_pack<Real, V>(out + i * shard.width + j,
                        load_pack<Real, V>(place_row(shard, row[i]).w + j));
  }
};

template <class Real>
struct CopyColumns {
  const Real* from;
  std::size_t from_stride;
  Real* to;
  std::size_t to_stride;
  __device__ void operator()(std::size_t i, std::size_t j) const {
    to[i * to_stride + j] = from[i * from_stride + j];
  }
};

// The end of the numbers of a sorted list that equal the one at `first`. Most occur once.
__device__ inline std::size_t end_of_equals(const ByColumn& list, std::size_t first) {
  const std::uint32_t number = list.columns[first];
  std::size_t step = 1;
  while (first + step < list.nonzeros && list.columns[first + step] == number) step *= 2;
  return lower_bound(list.columns, first + step / 2, smaller(first + step, list.nonzeros),
                     std::uint64_t{number} + 1);
}
__device__ inline bool begins_equals(const ByColumn& list, std::size_t first) {
  return first == 0 || list.columns[first - 1] != list.columns[first];
}

// Column j of the sum of the lookups of an entry. A thread works at the entry's first lookup.
template <class Real>
struct SumLookups {
  ByColumn lookups;                     // [X.rows x X.fields] by entry
  std::size_t columns, embedding, row;  // K, D, elements of a row
  std::uint32_t fields;
  Real scale;
  const Real* D;
  const Real* d;
  Real* sums;
  __device__ void operator()(std::size_t first, std::size_t j) const {
    if (!begins_equals(lookups, first)) return;
    const std::size_t last = end_of_equals(lookups, first);
    const std::size_t field = lookups.entries[first].row % fields;
    const bool own = j == embedding;  // the row's own weight
    const Real* const from = own ? d : D + columns + field * embedding + j;
    const std::size_t stride = own ? 1 : columns + fields * embedding;
    Real total = 0;
#pragma unroll 8
    for (std::size_t i = first; i < last; ++i) {
      total += from[lookups.entries[i].row / fields * stride];
    }
    sums[lookups.columns[first] * row + j] = scale == Real(1) ? total : total * scale;
  }
};

template <class Real>
__device__ void step_row(const rule::FusedAddScaled<Real>& rule, const PlacedRow<Real>& row,
                         std::size_t j, Real g) {
  rule(g, row.w[j]);
}
template <class Real>
__device__ void step_row(const rule::AdaGradStep<Real>& rule, const PlacedRow<Real>& row,
                         std::size_t j, Real g) {
  rule(g, row.state[0][j], row.w[j]);
}
template <class Real>
__device__ void step_row(const rule::LazyMomentStep<Real>& rule, const PlacedRow<Real>& row,
                         std::size_t j, Real g) {
  rule(g, row.state[0][j], row.state[1][j], row.w[j]);
}

template <class Real, class Rule>
struct StepDistinctRows {
  ShardRows<Real> shard;
  Rule rule;
  const std::uint32_t* row;
  const Real* value;
  __device__ void operator()(std::size_t i, std::size_t j) const {
    step_row(rule, place_row(shard, row[i]), j, value[i * shard.width + j]);
  }
};

// A row's sum and step. A thread works at the row's first occurrence.
template <class Real, class Rule>
struct StepSummedRows {
  ShardRows<Real> shard;
  Rule rule;
  ByColumn list;             // of all parts, by row
  const std::uint32_t* end;  // [parts] where a part ends
  const Real* scale;         // [parts], or null
  const Real* value;

  __device__ Real at(std::size_t i, std::size_t j) const {
    return value[list.entries[i].row * shard.width + j];
  }
  __device__ Real sum(std::size_t first, std::size_t last, std::size_t j) const {
    Real total = at(first, j);
#pragma unroll 8
    for (std::size_t i = first + 1; i < last; ++i) total += at(i, j);
    return total;
  }
  // Adds up part by part; each part's sum is rounded before it is added.
  __device__ Real scaled_sum(std::size_t first, std::size_t last, std::size_t j) const {
    Real total = 0;
    std::size_t part = 0;
    for (std::size_t i = first; i < last;) {
      const std::size_t begin = i;
      while (list.entries[i].row >= end[part]) ++part;
      while (i < last && list.entries[i].row < end[part]) ++i;
      const Real scaled = rounded_product(sum(begin, i, j), scale[part]);
      total = begin == first ? scaled : total + scaled;
    }
    return total;
  }
  __device__ void operator()(std::size_t first, std::size_t j) const {
    if (!begins_equals(list, first)) return;
    const std::size_t last = end_of_equals(list, first);
    const Real g = scale != nullptr ? scaled_sum(first, last, j) : sum(first, last, j);
    step_row(rule, place_row(shard, list.columns[first]), j, g);
  }
};

template <class Real>
class CudaTableKernels final : public BasicTableKernels<Real> {
 public:
  explicit CudaTableKernels(Backend& backend)
      : backend_(backend),
        sort_(backend.stream),
        numbers_(backend.stream),
        values_(backend.stream),
        ends_(backend.stream),
        scales_(backend.stream) {}

  void put(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row,
           const Real* values) override {
    const cudaStream_t stream = backend_.use();
    const PutShardRows<Real> rows{shard, send(numbers_, n, row),
                                  send(values_, n * shard.width, values)};
    launch_flat(stream, n, shard.stride, rows, "kernel put_shard_rows");
  }

  void gather(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row,
              Real* out) override {
    const cudaStream_t stream = backend_.use();
    const std::uint32_t* const rows = send(numbers_, n, row);
    constexpr int V = kPackOf<Real>;
    if (shard.width % V == 0 && shard.stride % V == 0 && is_aligned(out)) {
      launch_flat(stream, n, shard.width / V, GatherShardRows<Real, V>{shard, rows, out},
                  "kernel gather_shard_rows");
    } else {
      launch_flat(stream, n, shard.width, GatherShardRows<Real, 1>{shard, rows, out},
                  "kernel gather_shard_rows");
    }
  }

  void copy_columns(std::size_t n, std::size_t width, const Real* from, std::size_t from_stride,
                    Real* to, std::size_t to_stride) override {
    launch_flat(backend_.use(), n, width, CopyColumns<Real>{from, from_stride, to, to_stride},
                "kernel copy_columns");
  }

  void spread(const FieldRows<Real>& X, const TableShape& table, const std::uint32_t* entry,
              const Real* rows, Real* Y, Real* u) override {
    backend_.batches.check(X);
    const cudaStream_t stream = backend_.use();
    look_up_rows(stream, X, table, send(numbers_, X.rows * X.fields, entry), rows, Y, u,
                 "kernel spread_entries");
  }

  void sum(const FieldRows<Real>& X, const TableShape& table, const std::uint32_t* entry,
           std::size_t entries, Real scale, const Real* D, const Real* d, Real* sums) override {
    const cudaStream_t stream = backend_.use();
    const std::size_t n = X.rows * X.fields;
    const ByColumn lookups = sort_(n, send(numbers_, n, entry), entries);
    launch_flat(stream, n, table.row(),
                SumLookups<Real>{lookups, X.columns, table.embedding, table.row(),
                                 static_cast<std::uint32_t>(X.fields), scale, D, d, sums},
                "kernel sum_lookups");
  }

  void update(const ShardRows<Real>& shard, const RowParts<Real>& parts,
              const RowRule<Real>& rule) override {
    const std::size_t n = std::accumulate(parts.count, parts.count + parts.parts, std::size_t{0});
    if (n == 0) return;
    backend_.use();
    const std::uint32_t* const row = send(numbers_, n, parts.row);
    std::visit(
        [&](const auto& each) {
          if (parts.parts == 1 && !parts.scale) {
            step_distinct(shard, n, row, parts.value, each);
          } else {
            step_summed(shard, n, row, parts, each);
          }
        },
        rule);
  }

 private:
  template <class Rule>
  void step_distinct(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row,
                     const Real* value, const Rule& rule) {
    launch_flat(backend_.stream.get(), n, shard.width,
                StepDistinctRows<Real, Rule>{shard, rule, row, value}, "kernel step_distinct_rows");
  }

  template <class Rule>
  void step_summed(const ShardRows<Real>& shard, std::size_t n, const std::uint32_t* row,
                   const RowParts<Real>& parts, const Rule& rule) {
    const ByColumn list = sort_(n, row, shard.rows);
    end_.resize(parts.parts);
    std::size_t before = 0;
    for (std::size_t p = 0; p < parts.parts; ++p) {
      before += parts.count[p];
      end_[p] = static_cast<std::uint32_t>(before);
    }
    const std::uint32_t* const end = send(ends_, end_.size(), end_.data());
    const Real* const scale = parts.scale ? send(scales_, parts.parts, parts.scale) : nullptr;
    launch_rowwise(backend_.stream.get(), n, shard.width,
                   StepSummedRows<Real, Rule>{shard, rule, list, end, scale, parts.value},
                   "kernel step_summed_rows");
  }

  // A copy of host memory, which may be reused at once. Valid until the next call with this room.
  template <class T>
  T* send(DeviceMemory& room, std::size_t n, const T* host) {
    T* const device = room.reserve<T>(n, "numbers of rows");
    backend_.transfer.upload(device, host, n * sizeof(T));
    return device;
  }

  Backend& backend_;
  ListSort sort_;
  DeviceMemory numbers_, values_, ends_, scales_;
  std::vector<std::uint32_t> end_;
};

const RegisterKernels<Backend, BasicTableKernels, CudaTableKernels> table_kernels;

}  // namespace

}  // namespace hetsgd::cuda
