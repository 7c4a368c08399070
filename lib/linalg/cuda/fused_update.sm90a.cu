// The fused softmax layer's gradient of weights and biases, which updates them in place.
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/fused_operands.cuh"
#include "linalg/cuda/tensor_core.cuh"

namespace hetsgd::cuda {

namespace {

// Three warpgroups have 64 labels each, whose rows of W they read in the form of a product's
// operand and round to 16 bits in registers. They go through the chunks of A: Z^T = W A^T, D^T, and
// D^T A is added up. A fourth warpgroup sees to the chunks, which come in once if there is room for
// all of them.
//
// A's columns are exchanged (prepare_kernel) so that lane 4 g + t, which needs columns 2 t,
// 2 t + 1, 8 + 2 t and 8 + 2 t + 1 of each 16, reads and writes columns 4 t to 4 t + 3 of W and G:
// 16 bytes at once.

constexpr unsigned kUpdateGroups = 3, kUpdateThreads = (1 + kUpdateGroups) * kWarpgroup;
constexpr unsigned kRing = 4, kTiles = 5;

struct UpdateShared {
  unsigned char ring[kRing][kChunkTileBytes];
  float4 tile[kTiles][kUpdateLabels][kFusedInputs / 4];
  float log_sum[kRing][kChunkRows];
  Barrier full[kRing], free[kRing], done[kTiles];
  // A buffer has a barrier for each warpgroup, so that one that waits for it misses no phase: its
  // tile may come, and be worked on, while an earlier one of another warpgroup is on its way.
  Barrier come[kUpdateGroups][kTiles];
};

struct Gradients {
  float alpha, beta;
  float *G, *g;
};

__device__ __forceinline__ void produce_chunks(const FusedScratch& from, unsigned chunks,
                                               std::size_t tiles, UpdateShared& s) {
  // A block without tiles awaits no copy, and none may be under way when it ends.
  const std::size_t passes = ceil_divide(tiles, kUpdateGroups),
                    rounds = chunks <= kRing ? smaller(passes, 1) : passes;
  unsigned n = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (unsigned c = 0; c < chunks; ++c, ++n) {
      const unsigned at = n % kRing;
      if (n >= kRing) await(&s.free[at], (n / kRing - 1) % 2);
      arrive_with_bytes(&s.full[at], kChunkTileBytes + kChunkRows * sizeof(float));
      copy_to_shared(s.ring[at], from.chunks + c * kChunkTileBytes, kChunkTileBytes, &s.full[at]);
      copy_to_shared(s.log_sum[at], from.log_sum + c * kChunkRows, kChunkRows * sizeof(float),
                     &s.full[at]);
    }
  }
}

__device__ __forceinline__ void produce_rows(const Operands& x, Range tiles, UpdateShared& s) {
  unsigned n = 0;
  for (std::size_t tile = tiles.begin; tile < tiles.end; ++tile, ++n) {
    const unsigned at = n % kTiles;
    const std::size_t first = tile * kUpdateLabels;
    const auto bytes = static_cast<unsigned>(smaller(kUpdateLabels, x.outputs - first)) * kRowBytes;
    if (n >= kTiles) await(&s.done[at], (n / kTiles - 1) % 2);
    Barrier* const come = &s.come[n % kUpdateGroups][at];
    arrive_with_bytes(come, bytes);
    copy_to_shared(s.tile[at], x.W + first * kFusedInputs, bytes, come);
  }
}

// The rows that have a label, from `at` on, in their order. A thread has two labels.
struct OwnRows {
  std::uint32_t at = 0, row = kNoMore;
};
__device__ __forceinline__ void advance(const ByColumn& own, std::uint32_t label, OwnRows& rows) {
  const bool more = rows.at < own.nonzeros && own.columns[rows.at] == label;
  rows.row = more ? own.entries[rows.at].row : kNoMore;
}

template <int kRow>
__device__ __forceinline__ void subtract_targets(const Operands& x, const ByColumn& own,
                                                 unsigned chunk, std::uint32_t label, OwnRows& rows,
                                                 float (&S)[32]) {
  while (rows.row < (chunk + 1) * kChunkRows) {
    const std::uint32_t column = rows.row % kChunkRows;
    if (column % 8 / 2 == threadIdx.x % 4) {
      const float target = kShifted / static_cast<float>(x.begin[rows.row + 1] - x.begin[rows.row]);
#pragma unroll
      for (unsigned k = 0; k < 16; ++k) {
        S[k / 2 * 4 + 2 * kRow + k % 2] -= k == column / 8 * 2 + column % 2 ? target : 0.0F;
      }
    }
    ++rows.at;
    advance(own, label, rows);
  }
}

// D^T of one chunk: S holds W A^T of 64 labels and 64 rows, and becomes P = 2^14 (p - T) in 16
// bits.
template <class Format>
__device__ __forceinline__ void gradient_of_chunk(const Operands& x, const ByColumn& own,
                                                  unsigned chunk, std::uint32_t label,
                                                  const float* log_sum, float factor,
                                                  const float (&bias)[2], OwnRows (&own_rows)[2],
                                                  float (&S)[32], float (&sums)[2],
                                                  std::uint32_t (&P)[16]) {
  const unsigned t = threadIdx.x % 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 log = reinterpret_cast<const float2*>(log_sum)[4 * j + t];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      S[4 * j + 2 * i] = power_of_two(fmaf(S[4 * j + 2 * i], factor, bias[i]) - log.x);
      S[4 * j + 2 * i + 1] = power_of_two(fmaf(S[4 * j + 2 * i + 1], factor, bias[i]) - log.y);
    }
  }
  subtract_targets<0>(x, own, chunk, label, own_rows[0], S);
  subtract_targets<1>(x, own, chunk, label + 8, own_rows[1], S);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sums[i] += S[4 * j + 2 * i] + S[4 * j + 2 * i + 1];
      P[2 * j + i] = round_pair<Format>(S[4 * j + 2 * i], S[4 * j + 2 * i + 1]);
    }
  }
}

// A thread's numbers about its two labels of a tile. It reads them from memory one tile ahead,
// because that takes long.
struct TileFacts {
  float bias[2];
  std::uint32_t own_begin, own_end;  // the tile's labels in the batch

  __device__ __forceinline__ void read(const Operands& x, const FusedScratch& from,
                                       std::size_t tile, std::size_t label) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      bias[i] = label + 8 * i < x.outputs ? x.b[label + 8 * i] : minus_infinity();
    }
    const bool whole = tile * kUpdateLabels < x.outputs;
    own_begin = whole ? from.own_begin[tile] : 0;
    own_end = whole ? from.own_begin[tile + 1] : 0;
  }
};

// W's rows of a warpgroup's tile as an operand in registers; whatever lies beyond the last label.
template <class Format>
__device__ __forceinline__ void round_rows(const float4 (*tile)[kFusedInputs / 4],
                                           std::uint32_t (&A)[32]) {
  const unsigned warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float4* const w = tile[warp * 16 + lane / 4 + 8 * i] + lane % 4;
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      const float4 v = w[4 * q];
      A[4 * q + i] = round_pair<Format>(v.x * kWeightScale, v.y * kWeightScale);
      A[4 * q + 2 + i] = round_pair<Format>(v.z * kWeightScale, v.w * kWeightScale);
    }
  }
}

// The rows that have a thread's two labels. Few tiles have labels of the batch.
__device__ __forceinline__ void find_own(const ByColumn& own, const TileFacts& facts,
                                         std::uint32_t label, OwnRows (&rows)[2]) {
  if (facts.own_begin == facts.own_end) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    rows[i].at = static_cast<std::uint32_t>(
        lower_bound(own.columns, facts.own_begin, facts.own_end, label + 8 * i));
    advance(own, label + 8 * i, rows[i]);
  }
}

// G = beta G + alpha D^T A and g = beta g + alpha D^T 1 of a tile.
__device__ __forceinline__ void write_tile(const Operands& x, const Gradients& to,
                                           std::uint32_t label, float weight_alpha,
                                           const float4 (*tile)[kFusedInputs / 4], float (&sums)[2],
                                           const float (&O)[64]) {
  const unsigned warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, t = lane % 4;
  float g[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (to.beta != 0 && t == 0 && label + 8 * i < x.outputs) g[i] = to.g[label + 8 * i];
    sums[i] += __shfl_xor_sync(0xFFFFFFFFU, sums[i], 1);
    sums[i] += __shfl_xor_sync(0xFFFFFFFFU, sums[i], 2);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::size_t row = label + 8 * i;
    if (row >= x.outputs) continue;
    float4* const G = reinterpret_cast<float4*>(to.G + row * kFusedInputs) + t;
    const float4* const before = to.G == x.W ? tile[warp * 16 + lane / 4 + 8 * i] + t : G;
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      const float* const o = O + 8 * q + 2 * i;
      float4 v = {0, 0, 0, 0};
      if (to.beta != 0) v = before[4 * q];
      G[4 * q] = {fmaf(weight_alpha, o[0], to.beta * v.x), fmaf(weight_alpha, o[1], to.beta * v.y),
                  fmaf(weight_alpha, o[4], to.beta * v.z), fmaf(weight_alpha, o[5], to.beta * v.w)};
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (t == 0 && label + 8 * i < x.outputs) {
      to.g[label + 8 * i] = fmaf(to.alpha / kShifted, sums[i], to.beta * g[i]);
    }
  }
}

template <class Format>
__device__ __forceinline__ void update_tiles(const Operands& x, const ByColumn& own,
                                             const Gradients& to, const FusedScratch& from,
                                             unsigned chunks, Range tiles, UpdateShared& s) {
  const unsigned group = threadIdx.x / kWarpgroup - 1, warp = threadIdx.x / 32 % 4,
                 lane = threadIdx.x % 32;
  const float factor = from.facts[1] * (kLog2E / kWeightScale),
              weight_alpha = to.alpha / kShifted * from.facts[1];
  const bool resident = chunks <= kRing;
  const auto count = static_cast<unsigned>(tiles.size());
  auto label =
      static_cast<std::uint32_t>((tiles.begin + group) * kUpdateLabels) + warp * 16 + lane / 4;
  TileFacts facts;
  facts.read(x, from, tiles.begin + group, label);
  unsigned n = 0;
  for (unsigned tile = group; tile < round_up(count, kUpdateGroups);
       tile += kUpdateGroups, label += kUpdateGroups * kUpdateLabels) {
    if (tile >= count) {  // The others' chunks pass by.
      for (unsigned c = 0; c < chunks && !resident; ++c, ++n) {
        await(&s.full[n % kRing], n / kRing % 2);
        arrive(&s.free[n % kRing]);
      }
      break;
    }
    const unsigned buffer = tile % kTiles;
    await(&s.come[group][buffer], tile / (kUpdateGroups * kTiles) % 2);
    std::uint32_t A[32];
    round_rows<Format>(s.tile[buffer], A);
    const float bias[2] = {fmaf(facts.bias[0], kLog2E, kShift),
                           fmaf(facts.bias[1], kLog2E, kShift)};
    OwnRows own_rows[2];
    find_own(own, facts, label, own_rows);
    float O[64], sums[2] = {0, 0};
#pragma unroll
    for (float& o : O) o = 0;
    if (resident) n = 0;
    for (unsigned c = 0; c < chunks; ++c, ++n) {
      const unsigned at = n % kRing;
      await(&s.full[at], n / kRing % 2);
      const std::uint32_t chunk = tile_operand(s.ring[at], kChunkRows);
      float S[32];
      begin_products();
#pragma unroll
      for (unsigned k = 0; k < 8; ++k)
        multiply_columns(Format(), S, A + 4 * k, at_columns(chunk, kChunkRows, k), k > 0);
      end_products();
      await_products();
      std::uint32_t P[16];
      gradient_of_chunk<Format>(x, own, c, label, s.log_sum[at], factor, bias, own_rows, S, sums,
                                P);
      begin_products();
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) multiply_rows(Format(), O, P + 4 * k, at_rows(chunk, k));
      end_products();
      await_products();
      if (!resident) arrive(&s.free[at]);
    }
    facts.read(x, from, tiles.begin + tile + kUpdateGroups, label + kUpdateGroups * kUpdateLabels);
    write_tile(x, to, label, weight_alpha, s.tile[buffer], sums, O);
    arrive(&s.done[buffer]);  // Every lane has read rows of its own.
  }
}

template <class Format>
__global__ void __launch_bounds__(kUpdateThreads, 1)
    update_kernel(Operands x, ByColumn own, Gradients to, FusedScratch from) {
  extern __shared__ __align__(1024) unsigned char memory[];
  UpdateShared& s = *reinterpret_cast<UpdateShared*>(memory);
  const auto chunks = static_cast<unsigned>(ceil_divide(x.rows, kChunkRows));
  const Range tiles = group_of(ceil_divide(x.outputs, kUpdateLabels), gridDim.x, blockIdx.x);
  if (threadIdx.x == 0) {
    for (unsigned i = 0; i < kRing; ++i) {
      start_barrier(&s.full[i], 1);
      start_barrier(&s.free[i], kUpdateGroups * kWarpgroup);
    }
    for (unsigned i = 0; i < kTiles; ++i) {
      for (auto& come : s.come) start_barrier(&come[i], 1);
      start_barrier(&s.done[i], kWarpgroup);
    }
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    give_registers<32>();
    if (threadIdx.x == 0) produce_chunks(from, chunks, tiles.size(), s);
    if (threadIdx.x == 32) produce_rows(x, tiles, s);
  } else {
    take_registers<160>();
    update_tiles<Format>(x, own, to, from, chunks, tiles, s);
  }
}
template <class Format>
void update(cudaStream_t stream, const SparseRows<float>& labels, const ByColumn& by_label,
            const SoftmaxLayer<float>& layer, const FusedPlan& plan, const FusedScratch& scratch) {
  allow_shared<UpdateShared>(update_kernel<Format>);
  const Gradients to{layer.alpha * layer.scale, layer.beta, layer.weight_gradient,
                     layer.bias_gradient};
  update_kernel<Format>
      <<<static_cast<unsigned>(plan.update_blocks), kUpdateThreads, sizeof(UpdateShared), stream>>>(
          operands_of(labels, layer), by_label, to, scratch);
  check_launch("kernel fused_update");
}

}  // namespace

void fused_update(cudaStream_t stream, bool precise, const SparseRows<float>& labels,
                  const ByColumn& by_label, const SoftmaxLayer<float>& layer, const FusedPlan& plan,
                  const FusedScratch& scratch) {
  precise ? update<Half16>(stream, labels, by_label, layer, plan, scratch)
          : update<Brain16>(stream, labels, by_label, layer, plan, scratch);
}

}  // namespace hetsgd::cuda
