// The scores of the fused softmax layer with their statistics, and the gradient of its input.
#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/fused_operands.cuh"
#include "linalg/cuda/tensor_core.cuh"

namespace hetsgd::cuda {

namespace {

// --- prepare -------------------------------------------------------------------------------------

constexpr unsigned kPrepareThreads = 1024;

__device__ float largest_element(std::size_t count, const float* A) {
  __shared__ float of_warp[kPrepareThreads / 32];
  float largest = 0;
#pragma unroll 8
  for (std::size_t i = threadIdx.x; i < count / 4; i += kPrepareThreads) {
    const float4 a = reinterpret_cast<const float4*>(A)[i];
    largest = fmaxf(largest, fmaxf(fmaxf(fabsf(a.x), fabsf(a.y)), fmaxf(fabsf(a.z), fabsf(a.w))));
  }
  largest = reduce_warp(largest, [](float x, float y) { return fmaxf(x, y); });
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  for (float x : of_warp) largest = fmaxf(largest, x);
  return largest;
}

// A block per chunk. Every block finds the largest element of A by itself, which costs less than a
// launch.
template <class Format>
__global__ void __launch_bounds__(kPrepareThreads) prepare_kernel(Operands x, FusedScratch to) {
  const float largest = largest_element(x.rows * kFusedInputs, x.A);
  // The largest element becomes one of [2^14, 2^15).
  const float scale =
      largest > 0 && largest < INFINITY ? scalbnf(1.0F, 14 - max(ilogbf(largest), -100)) : 1.0F;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    to.facts[0] = scale;
    to.facts[1] = 1 / scale;
  }
  unsigned char* const chunk = to.chunks + blockIdx.x * kChunkTileBytes;
  constexpr unsigned kWords = kFusedInputs / 2, kHalfWords = kWords / 2;
  for (unsigned i = threadIdx.x; i < kChunkRows * kWords; i += kPrepareThreads) {
    const unsigned in_chunk = i / kWords, word = i % kWords;
    const std::size_t row = blockIdx.x * kChunkRows + in_chunk;
    float2 a = {0, 0};
    if (row < x.rows) a = reinterpret_cast<const float2*>(x.A)[row * kWords + word];
    const std::uint32_t pair = round_pair<Format>(a.x * scale, a.y * scale);
    const auto in_group = static_cast<unsigned>(row % kGroupSamples);
    *reinterpret_cast<std::uint32_t*>(to.groups +
                                      row / kGroupSamples * (kGroupSamples * kFusedInputs * 2) +
                                      word / kHalfWords * (kGroupSamples * kHalfRowBytes) +
                                      swizzled(in_group, word % kHalfWords)) = pair;
    // Columns 4 t to 4 t + 3 of 16 lie at 2 t, 2 t + 1, 8 + 2 t and 8 + 2 t + 1: see update_kernel.
    const unsigned moved = word / 8 * 8 + word % 2 * 4 + word % 8 / 2;
    *reinterpret_cast<std::uint32_t*>(chunk + moved / kHalfWords * (kChunkRows * kHalfRowBytes) +
                                      swizzled(in_chunk, moved % kHalfWords)) = pair;
  }
}

// --- scores --------------------------------------------------------------------------------------
//
// A block has 256 rows of A in shared memory and goes through a range of labels, 96 at a time:
//
//   warpgroup 0                            warpgroups 1 and 2, 128 rows each
//   W's rows -> 16 bits -> stage           wait for a full stage
//   wait for a free stage, ...             twice, for 64 rows: Z = A W^T, online softmax, O += E W
//                                          give the stage back
//
// While one of the two computes exponentials, the other one's products run.

constexpr unsigned kScoreThreads = 3 * kWarpgroup, kStages = 4;
constexpr unsigned kGroupTileBytes = kGroupSamples * kFusedInputs * 2;
constexpr unsigned kLabelTileBytes = kScoreLabels * kFusedInputs * 2;
// W comes in pieces of rows, a few ahead of their use.
constexpr unsigned kPieceLabels = 32, kPieces = 3, kPiecesPerTile = kScoreLabels / kPieceLabels;

// A thread's numbers of 64 rows and a tile of labels, and as pairs in 16 bits.
constexpr unsigned kScores = kScoreLabels / 2, kPairs = kScores / 2;

struct ScoresShared {
  unsigned char group[kGroupTileBytes];
  unsigned char stage[kStages][kLabelTileBytes];
  float4 piece[kPieces][kPieceLabels][kFusedInputs / 4];
  float bias[kStages][kScoreLabels];        // times log2(e); -inf beyond the last label
  std::uint32_t next_label[kGroupSamples];  // of each row, kNoMore: none
  std::uint32_t next_at[kGroupSamples];     // and where in `labels` it stands
  Barrier full[kStages], free[kStages], come[kPieces], loaded;
};

__device__ __forceinline__ void request_piece(const Operands& x, Range labels, unsigned n,
                                              ScoresShared& s) {
  const std::size_t first = labels.begin + std::size_t{n} * kPieceLabels;
  if (first >= labels.end) return;
  const std::size_t rows = first < x.outputs ? smaller(kPieceLabels, x.outputs - first) : 0;
  Barrier* const come = &s.come[n % kPieces];
  arrive_with_bytes(come, static_cast<unsigned>(rows) * kRowBytes);
  if (rows > 0)
    copy_to_shared(s.piece[n % kPieces], x.W + first * kFusedInputs,
                   static_cast<unsigned>(rows) * kRowBytes, come);
}

// Rounds a warp's rows of a piece to 16 bits: lane l has columns 4 l to 4 l + 3.
template <class Format, bool kWhole>
__device__ __forceinline__ void round_piece(const Operands& x, std::size_t first,
                                            const float4 (*piece)[kFusedInputs / 4], unsigned row,
                                            unsigned char* tile) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned char* const half = tile + lane / 16 * (kScoreLabels * kHalfRowBytes);
#pragma unroll
  for (unsigned i = 0; i < kPieceLabels / 4; ++i) {
    const unsigned in_piece = i * 4 + warp;
    float4 w = piece[in_piece][lane];
    if (!kWhole && first + in_piece >= x.outputs) w = {0, 0, 0, 0};
    const uint2 pairs = {round_pair<Format>(w.x * kWeightScale, w.y * kWeightScale),
                         round_pair<Format>(w.z * kWeightScale, w.w * kWeightScale)};
    *reinterpret_cast<uint2*>(half + swizzled(row + in_piece, lane % 16 * 2)) = pairs;
  }
}

template <class Format>
__device__ __forceinline__ void produce_tiles(const Operands& x, Range labels, ScoresShared& s) {
  if (threadIdx.x == 0) {
    for (unsigned n = 0; n < kPieces; ++n) request_piece(x, labels, n, s);
  }
  const auto bias_of = [&](std::size_t label) {
    return label < x.outputs ? x.b[label] : minus_infinity();
  };
  float bias = bias_of(labels.begin + threadIdx.x);  // of the tile that comes next
  unsigned n = 0;
  for (std::size_t tile = 0; labels.begin + tile * kScoreLabels < labels.end; ++tile) {
    const std::size_t first = labels.begin + tile * kScoreLabels;
    const auto stage = static_cast<unsigned>(tile % kStages),
               round = static_cast<unsigned>(tile / kStages);
    if (round > 0) await(&s.free[stage], (round - 1) % 2);
    if (threadIdx.x < kScoreLabels) s.bias[stage][threadIdx.x] = bias * kLog2E;
    bias = bias_of(first + kScoreLabels + threadIdx.x);
    for (unsigned i = 0; i < kPiecesPerTile; ++i, ++n) {
      await(&s.come[n % kPieces], n / kPieces % 2);
      const auto* const piece = s.piece[n % kPieces];
      if (first + kScoreLabels <= x.outputs) {
        round_piece<Format, true>(x, first + i * kPieceLabels, piece, i * kPieceLabels,
                                  s.stage[stage]);
      } else {
        round_piece<Format, false>(x, first + i * kPieceLabels, piece, i * kPieceLabels,
                                   s.stage[stage]);
      }
      meet_warpgroup(3);  // all have read the piece
      if (threadIdx.x == 0) request_piece(x, labels, n + kPieces, s);
    }
    publish_to_products();
    arrive(&s.full[stage]);
  }
}

// A thread's statistics of two rows, g and g + 8, of 64: base 2 throughout.
struct RowState {
  float max[2], sum[2];
};

// The labels of a row that lie in this tile: their logits are noted, and out of the sums.
__device__ __forceinline__ void take_out_own(const Operands& x, ScoresShared& s, std::size_t first,
                                             unsigned row, int i, float* true_logit,
                                             float (&S)[kScores]) {
  const unsigned t = threadIdx.x % 4;
  std::uint32_t label = s.next_label[row], at = s.next_at[row];
  const std::size_t end = first + kScoreLabels;
  if (label >= end) return;
  const std::size_t sample = blockIdx.y * kGroupSamples + row;
  const auto last = static_cast<std::uint32_t>(x.begin[sample + 1]);
  while (label < end) {
    const auto column = static_cast<unsigned>(label - first);
    if (column % 8 / 2 == t) {
#pragma unroll
      for (unsigned k = 0; k < kScores / 2; ++k) {  // 4 j + 2 i + e
        const unsigned index = k / 2 * 4 + 2 * static_cast<unsigned>(i) + k % 2;
        if (column / 8 * 2 + column % 2 == k) {
          true_logit[at] = S[index];
          S[index] = minus_infinity();
        }
      }
    }
    ++at;
    label = at < last ? x.labels[at] : kNoMore;
  }
  __syncwarp(0xFU << (threadIdx.x & 28));  // The row's four lanes have read its label.
  if (t == 0) {
    s.next_label[row] = label;
    s.next_at[row] = at;
  }
}

// One step of the online softmax over 64 rows and 96 labels: S holds A W^T, and becomes
// P = 2^14 exp(z - max) in 16 bits.
template <class Format>
__device__ __forceinline__ void online_softmax(const Operands& x, ScoresShared& s, unsigned stage,
                                               std::size_t first, unsigned row, float factor,
                                               float* true_logit, float (&S)[kScores],
                                               RowState& state, float (&O)[64],
                                               std::uint32_t (&P)[kPairs]) {
  const unsigned t = threadIdx.x % 4;
  const float2* const bias = reinterpret_cast<const float2*>(s.bias[stage]) + t;
#pragma unroll
  for (int j = 0; j < kScoreLabels / 8; ++j) {
    const float2 b = bias[4 * j];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      S[4 * j + 2 * i] = fmaf(S[4 * j + 2 * i], factor, b.x);
      S[4 * j + 2 * i + 1] = fmaf(S[4 * j + 2 * i + 1], factor, b.y);
    }
  }
  if (min(s.next_label[row], s.next_label[row + 8]) < first + kScoreLabels) {
#pragma unroll
    for (int i = 0; i < 2; ++i) take_out_own(x, s, first, row + 8 * i, i, true_logit, S);
  }
  float base[2];
  bool grew = false;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // Several short chains keep a lone warp busy.
    float of_chain[4] = {state.max[i], minus_infinity(), minus_infinity(), minus_infinity()};
#pragma unroll
    for (int j = 0; j < kScoreLabels / 8; ++j) {
      float& so_far = of_chain[j % 4];
      so_far = fmaxf(so_far, fmaxf(S[4 * j + 2 * i], S[4 * j + 2 * i + 1]));
    }
    float largest = fmaxf(fmaxf(of_chain[0], of_chain[1]), fmaxf(of_chain[2], of_chain[3]));
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, 2));
    base[i] = largest;
    grew |= largest != state.max[i];
  }
  if (__any_sync(0xFFFFFFFFU, grew)) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      // Before the first tile there is nothing to scale, and -inf - -inf is no number.
      const float shrink = state.max[i] == base[i] ? 1.0F : power_of_two(state.max[i] - base[i]);
      state.max[i] = base[i];
      state.sum[i] *= shrink;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        O[4 * j + 2 * i] *= shrink;
        O[4 * j + 2 * i + 1] *= shrink;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) base[i] = (base[i] == minus_infinity() ? 0.0F : base[i]) - kShift;
  float odd[2] = {0, 0};
#pragma unroll
  for (int j = 0; j < kScoreLabels / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float p = power_of_two(S[4 * j + 2 * i] - base[i]);
      const float q = power_of_two(S[4 * j + 2 * i + 1] - base[i]);
      state.sum[i] += p;
      odd[i] += q;
      P[2 * j + i] = round_pair<Format>(p, q);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) state.sum[i] += odd[i];
}

__device__ __forceinline__ std::uint32_t any_sign(const std::uint32_t (&P)[kPairs]) {
  std::uint32_t all = 0;
#pragma unroll
  for (const std::uint32_t p : P) all |= p;
  return all;
}

// Writes the part that a range of labels has in 64 rows, of which `row` is a thread's first.
__device__ __forceinline__ void write_part(const FusedScratch& to, unsigned row,
                                           const RowState& state, const float (&O)[64]) {
  const unsigned t = threadIdx.x % 4;
  const std::size_t rows = gridDim.y * kGroupSamples;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::size_t at = blockIdx.x * rows + blockIdx.y * kGroupSamples + row + 8 * i;
    float sum = state.sum[i];
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    if (t == 0) {
      to.part_max[at] = state.max[i];
      to.part_sum[at] = sum;
    }
    float2* const product = reinterpret_cast<float2*>(to.part_product + at * kFusedInputs) + t;
#pragma unroll
    for (int j = 0; j < 16; ++j) product[4 * j] = {O[4 * j + 2 * i], O[4 * j + 2 * i + 1]};
  }
}

template <class Format>
__device__ __forceinline__ void consume_tiles(const Operands& x, Range tiles, ScoresShared& s,
                                              const FusedScratch& to) {
  const unsigned group = warpgroup() - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const unsigned row = group * 128 + warp * 16 + lane / 4;  // of the first 64 rows
  const float factor = to.facts[1] * (kLog2E / kWeightScale);
  float O[2][64];
  RowState state[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (float& o : O[half]) o = 0;
    state[half] = {{minus_infinity(), minus_infinity()}, {0, 0}};
  }
  const auto add_product = [](std::uint32_t W, const std::uint32_t(&P)[kPairs], float(&O)[64]) {
    begin_products();
#pragma unroll
    for (unsigned k = 0; k < kScoreLabels / 16; ++k)
      multiply_rows(Format(), O, P + 4 * k, at_rows(W, k));
    end_products();
  };
  const std::uint32_t A = tile_operand(s.group, kGroupSamples) + (group * 128 * kHalfRowBytes >> 4);
  const unsigned mine = 1 + group, others = 2 - group;
  if (group == 1) give_turn(others);
  std::uint32_t P[kPairs] = {};
  unsigned n = 0;
  for (std::size_t tile = tiles.begin; tile < tiles.end; ++tile, ++n) {
    const unsigned stage = n % kStages, before = (n + kStages - 1) % kStages;
    const std::uint32_t W = tile_operand(s.stage[stage], kScoreLabels);
    await(&s.full[stage], n / kStages % 2);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Probabilities have no sign. The wait depends on them, so that they are complete before it.
      await_turn(mine + (any_sign(P) >> 31));
      if (half == 1) add_product(W, P, O[0]);
      if (half == 0 && n > 0) {
        add_product(tile_operand(s.stage[before], kScoreLabels), P, O[1]);
      }
      float S[kScores];
      begin_products();
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) {
        multiply_columns(Format(), S,
                         at_columns(A, kGroupSamples, k) + (half * 64 * kHalfRowBytes >> 4),
                         at_columns(W, kScoreLabels, k), k > 0);
      }
      end_products();
      await_products();
      if (half == 0 && n > 0 && lane == 0) arrive(&s.free[before]);
      if (group == 0 || half == 0 || tile + 1 < tiles.end) give_turn(others);
      online_softmax<Format>(x, s, stage, tile * kScoreLabels, row + half * 64, factor,
                             to.true_logit, S, state[half], O[half], P);
    }
  }
  if (n > 0) add_product(tile_operand(s.stage[(n - 1) % kStages], kScoreLabels), P, O[1]);
  await_products();
#pragma unroll
  for (int half = 0; half < 2; ++half) write_part(to, row + half * 64, state[half], O[half]);
}

// Block (range, group).
template <class Format>
__global__ void __launch_bounds__(kScoreThreads, 1) scores_kernel(Operands x, FusedScratch to) {
  extern __shared__ __align__(1024) unsigned char memory[];
  ScoresShared& s = *reinterpret_cast<ScoresShared*>(memory);
  const std::size_t count = ceil_divide(x.outputs, kScoreLabels);
  const Range tiles = group_of(count, gridDim.x, blockIdx.x);
  if (threadIdx.x == 0) {
    for (unsigned i = 0; i < kStages; ++i) {
      start_barrier(&s.full[i], kWarpgroup);
      start_barrier(&s.free[i], 2 * 4);
    }
    for (Barrier& come : s.come) start_barrier(&come, 1);
    start_barrier(&s.loaded, 1);
    publish_barriers();
    arrive_with_bytes(&s.loaded, kGroupTileBytes);
    copy_to_shared(s.group, to.groups + blockIdx.y * kGroupTileBytes, kGroupTileBytes, &s.loaded);
  }
  for (unsigned i = threadIdx.x; i < kGroupSamples; i += kScoreThreads) {
    const std::size_t row = blockIdx.y * kGroupSamples + i;
    std::uint64_t at = 0, end = 0;
    if (row < x.rows) {
      end = x.begin[row + 1];
      at = lower_bound(x.labels, x.begin[row], end, tiles.begin * kScoreLabels);
    }
    s.next_at[i] = static_cast<std::uint32_t>(at);
    s.next_label[i] = at < end ? x.labels[at] : kNoMore;
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    give_registers<40>();
    produce_tiles<Format>(x, {tiles.begin * kScoreLabels, tiles.end * kScoreLabels}, s);
  } else {
    take_registers<232>();
    await(&s.loaded, 0);
    consume_tiles<Format>(x, tiles, s, to);
  }
}

// --- combine -------------------------------------------------------------------------------------

// A block per row: a thread per column and slice of the ranges.
constexpr unsigned kSlices = 4, kCombineThreads = kSlices * kFusedInputs, kMostRanges = 512;

template <class T, class Op>
__device__ T reduce_threads(T x, Op op, T* scratch) {
  x = reduce_warp(x, op);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  x = scratch[0];
  for (unsigned i = 1; i < kCombineThreads / 32; ++i) x = op(x, scratch[i]);
  return x;
}

struct CombineShared {
  float weight[kMostRanges];
  float product[kSlices][kFusedInputs];
  float floats[kCombineThreads / 32];
  double doubles[kCombineThreads / 32];
};

__global__ void __launch_bounds__(kCombineThreads)
    combine_kernel(Operands x, ByColumn by_label, float scale, float* input_gradient,
                   FusedScratch from) {
  __shared__ CombineShared s;
  const std::size_t tiles = ceil_divide(x.outputs, kUpdateLabels);
  for (std::size_t tile = blockIdx.x * kCombineThreads + threadIdx.x; tile <= tiles;
       tile += gridDim.x * kCombineThreads) {
    from.own_begin[tile] = static_cast<std::uint32_t>(
        lower_bound(by_label.columns, 0, by_label.nonzeros, tile * kUpdateLabels));
  }
  const std::size_t row = blockIdx.x, rows = gridDim.x;
  float* const log_sum = from.log_sum + row;
  const unsigned thread = threadIdx.x, column = thread % kFusedInputs,
                 slice = thread / kFusedInputs;
  const bool exists = row < x.rows;
  const std::uint64_t begin = exists ? x.begin[row] : 0, end = exists ? x.begin[row + 1] : 0;
  if (begin == end) {  // no labels, no gradient
    if (thread == 0) *log_sum = INFINITY;
    if (exists && slice == 0) input_gradient[row * kFusedInputs + column] = 0;
    if (exists && thread == 0) from.loss[row] = 0;
    return;
  }
  float largest = minus_infinity();
  for (std::size_t r = thread; r < from.ranges; r += kCombineThreads)
    largest = fmaxf(largest, from.part_max[r * rows + row]);
  for (std::uint64_t k = begin + thread; k < end; k += kCombineThreads)
    largest = fmaxf(largest, from.true_logit[k]);
  largest = reduce_threads(
      largest, [](float a, float b) { return fmaxf(a, b); }, s.floats);
  double sum = 0, own = 0;
  for (std::size_t r = thread; r < from.ranges; r += kCombineThreads) {
    s.weight[r] = exp2f(from.part_max[r * rows + row] - largest);
    sum += static_cast<double>(s.weight[r] * from.part_sum[r * rows + row]);
  }
  sum /= kShifted;
  for (std::uint64_t k = begin + thread; k < end; k += kCombineThreads) {
    sum += exp2(static_cast<double>(from.true_logit[k] - largest));
    own += static_cast<double>(from.true_logit[k]);
  }
  sum = reduce_threads(sum, Sum(), s.doubles);
  own = reduce_threads(own, Sum(), s.doubles);
  const double log2_sum = static_cast<double>(largest) + log2(sum);
  const Range ranges = group_of(from.ranges, kSlices, slice);
  float product = 0;
#pragma unroll 8
  for (std::size_t r = ranges.begin; r < ranges.end; ++r) {
    product += s.weight[r] * from.part_product[(r * rows + row) * kFusedInputs + column];
  }
  s.product[slice][column] = product;
  __syncthreads();
  if (slice != 0) return;
  for (unsigned i = 1; i < kSlices; ++i) product += s.product[i][column];
  product /= static_cast<float>(sum) * (kShifted * kWeightScale);
  const float target = 1.0F / static_cast<float>(end - begin);
  for (std::uint64_t k = begin; k < end; ++k) {
    const float p = exp2f(static_cast<float>(static_cast<double>(from.true_logit[k]) - log2_sum));
    product += (p - target) * x.W[x.labels[k] * kFusedInputs + column];
  }
  input_gradient[row * kFusedInputs + column] = scale * product;
  if (thread == 0) {
    *log_sum = static_cast<float>(log2_sum);
    from.loss[row] = (log2_sum - own / static_cast<double>(end - begin)) * 0.6931471805599453;
  }
}
template <class Format>
void scores(cudaStream_t stream, const SparseRows<float>& labels, const ByColumn& by_label,
            const SoftmaxLayer<float>& layer, const FusedPlan& plan, const FusedScratch& scratch) {
  const Operands x = operands_of(labels, layer);
  prepare_kernel<Format>
      <<<static_cast<unsigned>(plan.padded_rows / kChunkRows), kPrepareThreads, 0, stream>>>(
          x, scratch);
  check_launch("kernel fused_prepare");
  allow_shared<ScoresShared>(scores_kernel<Format>);
  const dim3 blocks(static_cast<unsigned>(plan.ranges), static_cast<unsigned>(plan.groups));
  scores_kernel<Format><<<blocks, kScoreThreads, sizeof(ScoresShared), stream>>>(x, scratch);
  check_launch("kernel fused_scores");
  combine_kernel<<<static_cast<unsigned>(plan.padded_rows), kCombineThreads, 0, stream>>>(
      x, by_label, layer.scale, layer.input_gradient, scratch);
  check_launch("kernel fused_combine");
}

}  // namespace

bool has_fused_softmax(int major, int minor) { return major == 9 && minor == 0; }

void fused_scores(cudaStream_t stream, bool precise, const SparseRows<float>& labels,
                  const ByColumn& by_label, const SoftmaxLayer<float>& layer, const FusedPlan& plan,
                  const FusedScratch& scratch) {
  if (labels.rows == 0) return;
  precise ? scores<Half16>(stream, labels, by_label, layer, plan, scratch)
          : scores<Brain16>(stream, labels, by_label, layer, plan, scratch);
}

}  // namespace hetsgd::cuda
