// Embeddings, norms and gelu over tokens, on a GPU. Sums over tokens have one order: those of an
// embedding's rows go over the tokens sorted by number, those of a norm's parameters over groups.
#include <algorithm>
#include <cmath>

#include "linalg/cuda/block.cuh"
#include "linalg/cuda/list_sort.hpp"
#include "linalg/cuda/lookups.cuh"
#include "linalg/cuda/token_places.hpp"
#include "linalg/cuda/vectors.hpp"
#include "linalg/token_kernels.hpp"

namespace hetsgd::cuda {

namespace {

template <class Real>
struct Embed {
  EmbedShape shape;
  const std::uint32_t* step;
  const Real* X;
  const Real* parameters;
  Real* Y;
  __device__ void operator()(std::size_t token, std::size_t j) const {
    const std::uint32_t t = step[token];
    const auto row = [&](std::size_t number) { return parameters[number * shape.width + j]; };
    Real y = 0;
    if (t != kPaddingStep) {
      y = row(static_cast<std::size_t>(X[token]));
      if (shape.block > 0) y += row(shape.tokens + t);
      if (shape.segments > 0) y += row(shape.tokens + shape.block);
    }
    Y[token * shape.width + j] = y;
  }
};

// The row of E of each token. Padding has the number behind the last one, and is sorted last.
template <class Real>
struct TokenNumbers {
  std::size_t kinds;
  const std::uint32_t* step;
  const Real* X;
  std::uint32_t* number;
  __device__ void operator()(std::size_t, std::size_t token) const {
    const bool padding = step[token] == kPaddingStep;
    number[token] =
        static_cast<std::uint32_t>(padding ? kinds : static_cast<std::size_t>(X[token]));
  }
};

// The sum of dY over the rows' tokens at a step: P <- beta P + alpha (it) for positions of the
// block, and sums [. x width] <- it, unless they are null.
template <class Real>
struct PositionSums {
  std::size_t width, block;
  TokenMap map;
  const Real* dY;
  Real alpha, beta;
  Real* P;
  Real* sums;
  __device__ void operator()(std::size_t t, std::size_t j) const {
    Real sum = 0;
    for (std::size_t r = 0; r < map.rows; ++r) {
      if (t < map.length[r]) sum += dY[(map.begin[r] + t) * width + j];
    }
    if (sums != nullptr) sums[t * width + j] = sum;
    if (t >= block) return;
    Real& x = P[t * width + j];
    x = beta == Real(0) ? alpha * sum : beta * x + alpha * sum;
  }
};

// --- norms: a warp per token ---------------------------------------------------------------------

// The sum of f(0), ..., f(width - 1), on all lanes.
template <class Real, class F>
__device__ Real sum_over_lanes(std::size_t width, F f) {
  Real sum = 0;
  for (std::size_t c = threadIdx.x % kWarp; c < width; c += kWarp) sum += f(c);
  return reduce_warp(sum, Sum());
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    norm_kernel(std::size_t tokens, std::size_t width, const Real* __restrict__ X, Real epsilon,
                const Real* __restrict__ scale, const Real* __restrict__ shift,
                Real* __restrict__ statistics, Real* __restrict__ Y) {
  const std::size_t lane = threadIdx.x % kWarp;
  const auto n = static_cast<Real>(width);
  for (std::size_t token = blockIdx.x * kWarps + threadIdx.x / kWarp; token < tokens;
       token += gridDim.x * kWarps) {
    const Real* const x = X + token * width;
    const Real mean = sum_over_lanes<Real>(width, [&](std::size_t c) { return x[c]; }) / n;
    const auto square = [&](std::size_t c) { return (x[c] - mean) * (x[c] - mean); };
    const Real r = 1 / std::sqrt(sum_over_lanes<Real>(width, square) / n + epsilon);
    if (lane == 0) {
      statistics[2 * token] = mean;
      statistics[2 * token + 1] = r;
    }
    for (std::size_t c = lane; c < width; c += kWarp) {
      const Real value = scale[c] * ((x[c] - mean) * r);
      Y[token * width + c] = shift != nullptr ? value + shift[c] : value;
    }
  }
}

// dX, which may be dY: q = g dy,  dx = r (q - mean q - x^ mean(q x^)),  x^ = (x - mean) r
template <class Real>
__global__ void __launch_bounds__(kThreads)
    norm_gradient_kernel(std::size_t tokens, std::size_t width, const Real* __restrict__ X,
                         const Real* __restrict__ statistics, const Real* __restrict__ scale,
                         const Real* dY, Real beta, Real* dX) {
  const auto n = static_cast<Real>(width);
  for (std::size_t token = blockIdx.x * kWarps + threadIdx.x / kWarp; token < tokens;
       token += gridDim.x * kWarps) {
    const Real* const x = X + token * width;
    const Real* const dy = dY + token * width;
    const Real mean = statistics[2 * token], r = statistics[2 * token + 1];
    const auto q = [&](std::size_t c) { return dy[c] * scale[c]; };
    const auto centred = [&](std::size_t c) { return (x[c] - mean) * r; };
    const Real q_mean = sum_over_lanes<Real>(width, q) / n;
    const Real qx_mean =
        sum_over_lanes<Real>(width, [&](std::size_t c) { return q(c) * centred(c); }) / n;
    for (std::size_t c = threadIdx.x % kWarp; c < width; c += kWarp) {
      const Real gradient = r * (q(c) - q_mean - centred(c) * qx_mean);
      Real& to = dX[token * width + c];
      to = beta == Real(0) ? gradient : beta * to + gradient;
    }
  }
}

// sums [2 x groups x width] <- the sums of dy x^ and of dy over groups of tokens. A thread walks
// down a column of a group.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    norm_sums_kernel(std::size_t tokens, std::size_t width, std::size_t groups,
                     const Real* __restrict__ X, const Real* __restrict__ statistics,
                     const Real* __restrict__ dY, Real* __restrict__ sums) {
  const std::size_t tiles = ceil_divide(width, kThreads);
  for (std::size_t task = blockIdx.x; task < tiles * groups; task += gridDim.x) {
    const std::size_t column = task % tiles * kThreads + threadIdx.x, group = task / tiles;
    if (column >= width) continue;
    const Range range = group_of(tokens, groups, group);
    Real scaled = 0, plain = 0;
#pragma unroll 4
    for (std::size_t token = range.begin; token < range.end; ++token) {
      const Real d = dY[token * width + column];
      const Real mean = statistics[2 * token], r = statistics[2 * token + 1];
      scaled += d * ((X[token * width + column] - mean) * r);
      plain += d;
    }
    sums[group * width + column] = scaled;
    sums[(groups + group) * width + column] = plain;
  }
}

// --- gelu ----------------------------------------------------------------------------------------

template <class Real>
struct GeluPair {
  Real value, slope;
};

template <class Real>
__device__ GeluPair<Real> gelu_of(GeluLaw law, Real x) {
  if (law == GeluLaw::exact) {
    constexpr auto kRoot = static_cast<Real>(0.70710678118654752440);     // 1 / sqrt(2)
    constexpr auto kDensity = static_cast<Real>(0.39894228040143267794);  // 1 / sqrt(2 pi)
    // erf is the more exact of the two near 0 and above; only erfc has the lower tail.
    const Real phi = x < Real(-1) ? Real(0.5) * std::erfc(-kRoot * x)
                                  : Real(0.5) + Real(0.5) * std::erf(kRoot * x);
    return {x * phi, phi + x * (kDensity * std::exp(Real(-0.5) * x * x))};
  }
  constexpr auto kScale = static_cast<Real>(0.79788456080286535588);  // sqrt(2 / pi)
  constexpr auto kCube = static_cast<Real>(0.044715);
  const Real tanh = std::tanh(kScale * (x + kCube * x * x * x));
  const Real half = Real(0.5) * (Real(1) + tanh);
  const Real inside = kScale * (Real(1) + Real(3) * kCube * x * x);
  return {x * half, half + Real(0.5) * x * (Real(1) - tanh * tanh) * inside};
}

// Y <- gelu(X), or with dY Y <- beta Y + dY gelu'(X).
template <class Real>
struct Gelu {
  GeluLaw law;
  const Real* X;
  const Real* dY;
  Real beta;
  Real* Y;
  __device__ void operator()(std::size_t, std::size_t i) const {
    const GeluPair<Real> gelu = gelu_of(law, X[i]);
    const Real result = dY == nullptr ? gelu.value : dY[i] * gelu.slope;
    Y[i] = beta == Real(0) ? result : beta * Y[i] + result;
  }
};

template <class Real>
class CudaTokenKernels final : public BasicTokenKernels<Real> {
 public:
  explicit CudaTokenKernels(Backend& backend)
      : backend_(backend),
        places_(backend),
        sort_(backend.stream),
        numbers_(backend.stream),
        sums_(backend.stream) {}

  void embed(const EmbedShape& shape, const TokenSpans& rows, const Real* X, const Real* parameters,
             Real* Y) override {
    const TokenMap& map = places_.of(rows);
    launch_rowwise(backend_.use(), rows.tokens, shape.width,
                   Embed<Real>{shape, map.step, X, parameters, Y}, "kernel embed");
  }

  void embed_gradient(const EmbedShape& shape, const TokenSpans& rows, const Real* X,
                      const Real* dY, Real alpha, Real tokens_beta, Real beta, Real* to) override {
    const TokenMap& map = places_.of(rows);
    const cudaStream_t stream = backend_.use();
    add_token_sums(shape, map, X, dY, alpha, tokens_beta, to);
    if (shape.block + shape.segments == 0) return;
    const std::size_t width = shape.width, steps = larger(shape.block, longest(rows));
    Real* const P = to + shape.tokens * width;
    Real* const S = P + shape.block * width;
    Real* const sums =
        shape.segments > 0 ? sums_.reserve<Real>(steps * width, "the sums of positions") : nullptr;
    launch_rowwise(stream, steps, width,
                   PositionSums<Real>{width, shape.block, map, dY, alpha, beta, P, sums},
                   "kernel embed_position_sums");
    if (shape.segments == 0) return;
    add_groups(stream, steps, width, alpha, sums, beta, S);
    // No token is in the other segments.
    scale_matrix(stream, shape.segments - 1, width, beta, S + width, width);
  }

  void norm(std::size_t tokens, std::size_t width, const Real* X, Real epsilon, const Real* scale,
            const Real* shift, Real* statistics, Real* Y) override {
    launch(backend_.use(), tokens, kWarps, "kernel norm", norm_kernel<Real>, tokens, width, X,
           epsilon, scale, shift, statistics, Y);
  }

  void norm_gradient(std::size_t tokens, std::size_t width, const Real* X, const Real* statistics,
                     const Real* scale, const Real* dY, Real beta, Real* dX, Real alpha,
                     Real parameter_beta, Real* G, Real* g) override {
    const cudaStream_t stream = backend_.use();
    const std::size_t groups = row_groups(tokens, width);
    auto* const sums = sums_.reserve<Real>(2 * groups * width, "the sums of a norm");
    launch(stream, ceil_divide(width, kThreads) * groups, 1, "kernel norm_sums",
           norm_sums_kernel<Real>, tokens, width, groups, X, statistics, dY, sums);
    // dX after the sums, since it may be dY, and before the parameters move.
    launch(stream, dX != nullptr ? tokens : 0, kWarps, "kernel norm_gradient",
           norm_gradient_kernel<Real>, tokens, width, X, statistics, scale, dY, beta, dX);
    add_groups(stream, groups, width, alpha, sums, parameter_beta, G);
    if (g == nullptr) return;
    add_groups(stream, groups, width, alpha, sums + groups * width, parameter_beta, g);
  }

  void gelu(GeluLaw law, std::size_t count, const Real* X, Real* Y) override {
    launch_rowwise(backend_.use(), 1, count, Gelu<Real>{law, X, nullptr, Real(0), Y},
                   "kernel gelu");
  }
  void gelu_gradient(GeluLaw law, std::size_t count, const Real* X, const Real* dY, Real beta,
                     Real* dX) override {
    launch_rowwise(backend_.use(), 1, count, Gelu<Real>{law, X, dY, beta, dX},
                   "kernel gelu_gradient");
  }

 private:
  static std::size_t longest(const TokenSpans& rows) {
    return rows.rows == 0 ? 0 : *std::max_element(rows.length, rows.length + rows.rows);
  }

  // E <- beta E + alpha (the sums of dY over the tokens of each kind): a table whose rows tokens
  // look up.
  void add_token_sums(const EmbedShape& shape, const TokenMap& map, const Real* X, const Real* dY,
                      Real alpha, Real beta, Real* E) {
    const cudaStream_t stream = backend_.stream.get();
    const std::size_t width = shape.width;
    auto* const numbers = numbers_.reserve<std::uint32_t>(map.tokens, "the numbers of tokens");
    launch_rowwise(stream, 1, map.tokens, TokenNumbers<Real>{shape.tokens, map.step, X, numbers},
                   "kernel token_numbers");
    ByColumn sorted = sort_(map.tokens, numbers, shape.tokens + 1);
    sorted.nonzeros = map.used;
    auto* const sums = sums_.reserve<Real>(lookup_sums(map.used, width), "the sums of tokens");
    if (beta != Real(1)) scale_matrix(stream, shape.tokens, width, beta, E, width);
    const FieldRows<Real> lookups{map.tokens, 0, 1, shape.tokens, nullptr, nullptr, numbers};
    update_looked_up_rows<Real>(stream,
                                {lookups, sorted, width, width, alpha, dY, nullptr, sums, E});
  }

  Backend& backend_;
  TokenPlaces places_;
  ListSort sort_;
  DeviceMemory numbers_, sums_;
};

const RegisterKernels<Backend, BasicTokenKernels, CudaTokenKernels> token_kernels;

}  // namespace

}  // namespace hetsgd::cuda
