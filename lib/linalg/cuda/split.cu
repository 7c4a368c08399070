#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/half.cuh"
#include "linalg/cuda/split.hpp"

namespace hetsgd::cuda {

namespace {

constexpr unsigned kInputBlocks = 16, kWeightBlocks = kSplitParts - kInputBlocks;
using Eight = Pack<HalfBits, 8>;

__device__ float of_largest(float a, float b) { return fmaxf(a, b); }  // NaN operands lose

// Blocks 0 to kInputBlocks - 1 have a part of A each, the others one of W.
__global__ void __launch_bounds__(kThreads)
    largest_kernel(SplitSource A, SplitSource W, float* __restrict__ parts) {
  __shared__ float scratch[kWarps];
  const bool of_input = blockIdx.x < kInputBlocks;
  const SplitSource& X = of_input ? A : W;
  const std::size_t blocks = of_input ? kInputBlocks : kWeightBlocks,
                    block = of_input ? blockIdx.x : blockIdx.x - kInputBlocks;
  const std::size_t packs = X.rows * X.columns / 4;
  float largest = 0;
#pragma unroll 4
  for (std::size_t i = block * kThreads + threadIdx.x; i < packs; i += blocks * kThreads) {
    const auto x = load_pack<float, 4>(X.data + 4 * i);
    largest = fmaxf(largest, fmaxf(fmaxf(fabsf(x.at[0]), fabsf(x.at[1])),
                                   fmaxf(fabsf(x.at[2]), fabsf(x.at[3]))));
  }
  largest = reduce_block(largest, of_largest, scratch);
  if (threadIdx.x == 0) parts[blockIdx.x] = largest;
}

// The exponent of the scale. A matrix of 0, and one that is no longer finite, keep theirs.
__device__ int scale_exponent(float largest) {
  return largest > 0 && largest < INFINITY ? 14 - max(ilogbf(largest), -60) : 0;
}

__global__ void __launch_bounds__(kThreads)
    facts_kernel(const float* __restrict__ parts, float gradient_scale, float alpha, float beta,
                 SplitFacts* __restrict__ facts) {
  __shared__ float scratch[kWarps];
  float of_input = 0, of_weight = 0;
  for (unsigned i = threadIdx.x; i < kSplitParts; i += kThreads) {
    float& largest = i < kInputBlocks ? of_input : of_weight;
    largest = fmaxf(largest, parts[i]);
  }
  of_input = reduce_block(of_input, of_largest, scratch);
  of_weight = reduce_block(of_weight, of_largest, scratch);
  if (threadIdx.x != 0) return;
  const int input = scale_exponent(of_input), weight = scale_exponent(of_weight);
  *facts = {.input_scale = scalbnf(1, input),
            .weight_scale = scalbnf(1, weight),
            .logit_factor = scalbnf(1, -input - weight),
            .input_factor = scalbnf(1 / gradient_scale, -weight),
            .weight_alpha = scalbnf(alpha / gradient_scale, -input),
            .weight_beta = beta,
            .zero = 0,
            .one = 1};
}

// Eight numbers of a matrix, scaled.
__device__ void split_eight(const float* from, float scale, Eight& hi, Eight& lo) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto x = load_pack<float, 4>(from + 4 * half);
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const SplitNumber number = split_number(x.at[v] * scale);
      hi.at[4 * half + v] = number.hi;
      lo.at[4 * half + v] = number.lo;
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    split_input_kernel(SplitSource A, const SplitFacts* __restrict__ facts,
                       HalfBits* __restrict__ beside, HalfBits* __restrict__ below) {
  const std::size_t packs = A.columns / 8, count = A.rows * packs, all = A.rows * A.columns;
  const float scale = facts->input_scale;
  for (std::size_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    const std::size_t row = i / packs, column = i % packs * 8;
    Eight hi, lo;
    split_eight(A.data + i * 8, scale, hi, lo);
    HalfBits* const to = beside + row * 3 * A.columns + column;
    store_pack<HalfBits, 8>(to, lo);
    store_pack<HalfBits, 8>(to + A.columns, hi);
    store_pack<HalfBits, 8>(to + 2 * A.columns, hi);
    store_pack<HalfBits, 8>(below + i * 8, hi);
    store_pack<HalfBits, 8>(below + all + i * 8, lo);
    store_pack<HalfBits, 8>(below + 2 * all + i * 8, hi);
  }
}

__global__ void __launch_bounds__(kThreads)
    split_weight_kernel(SplitSource W, std::size_t padded, const SplitFacts* __restrict__ facts,
                        HalfBits* __restrict__ beside) {
  const std::size_t packs = W.columns / 8, count = padded * packs;
  const float scale = facts->weight_scale;
#pragma unroll 2
  for (std::size_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    const std::size_t row = i / packs, column = i % packs * 8;
    Eight hi = {}, lo = {};
    if (row < W.rows) split_eight(W.data + i * 8, scale, hi, lo);
    HalfBits* const to = beside + row * 3 * W.columns + column;
    store_pack<HalfBits, 8>(to, hi);
    store_pack<HalfBits, 8>(to + W.columns, lo);
    store_pack<HalfBits, 8>(to + 2 * W.columns, hi);
  }
}

__global__ void __launch_bounds__(kThreads)
    add_parts_kernel(std::size_t count, std::size_t n, const float* __restrict__ parts,
                     float* __restrict__ to) {
  for (std::size_t i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) {
    float sum = 0;
#pragma unroll 4
    for (std::size_t part = 0; part < count; ++part) {
      sum += parts[part * 2 * n + i] + parts[(part * 2 + 1) * n + i];
    }
    to[i] = sum;
  }
}

struct Clear {
  HalfBits* first;
  std::size_t stride;
  __device__ void operator()(std::size_t row, std::size_t column) const {
    first[row * stride + column] = 0;
  }
};

}  // namespace

void measure_split(cudaStream_t stream, const SplitSource& A, const SplitSource& W,
                   float gradient_scale, float alpha, float beta, float* parts, SplitFacts* facts) {
  launch(stream, kSplitParts, 1, "kernel split_largest", largest_kernel, A, W, parts);
  launch(stream, 1, 1, "kernel split_facts", facts_kernel, parts, gradient_scale, alpha, beta,
         facts);
}

void split_input(cudaStream_t stream, const SplitSource& A, const SplitFacts* facts,
                 HalfBits* beside, HalfBits* below) {
  launch(stream, A.rows * A.columns / 8, kThreads, "kernel split_input", split_input_kernel, A,
         facts, beside, below);
}

void split_weight(cudaStream_t stream, const SplitSource& W, std::size_t padded,
                  const SplitFacts* facts, HalfBits* beside) {
  launch(stream, padded * W.columns / 8, kThreads, "kernel split_weight", split_weight_kernel, W,
         padded, facts, beside);
}

void clear_gap(cudaStream_t stream, const SplitGradient& gradient, std::size_t columns) {
  launch_rowwise(stream, 3 * gradient.rows, gradient.stride - columns,
                 Clear{gradient.halves + columns, gradient.stride}, "kernel split_clear_gap");
}

void add_split_parts(cudaStream_t stream, std::size_t count, std::size_t n, const float* parts,
                     float* to) {
  launch(stream, n, kThreads, "kernel split_add_parts", add_parts_kernel, count, n, parts, to);
}

}  // namespace hetsgd::cuda
