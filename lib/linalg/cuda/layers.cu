#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/layers.hpp"

namespace hetsgd::cuda {

namespace {

// A warp per piece of a row: no division per number.
constexpr std::size_t kPiece = kWarp * 16;

template <class Real>
__global__ void __launch_bounds__(kThreads)
    bias_relu_kernel(std::size_t rows, std::size_t n, const Real* __restrict__ bias,
                     Real* __restrict__ Y) {
  const std::size_t lane = threadIdx.x % kWarp;
  const std::size_t tasks = rows * ceil_divide(n, kPiece);
  for (std::size_t task = blockIdx.x * kWarps + threadIdx.x / kWarp; task < tasks;
       task += gridDim.x * kWarps) {
    const Tile tile = tile_of(task, n, kPiece);
    Real* const y = Y + tile.row * n;
#pragma unroll 4
    for (std::size_t j = tile.columns.begin + lane; j < tile.columns.end; j += kWarp) {
      const Real x = y[j] + bias[j];
      y[j] = x < Real(0) ? Real(0) : x;  // NaN stays NaN
    }
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    relu_backward_kernel(std::size_t count, const Real* __restrict__ Y, Real* __restrict__ D) {
  const std::size_t step = gridDim.x * kThreads;
#pragma unroll 4
  for (std::size_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += step) {
    if (Y[i] <= Real(0)) D[i] = Real(0);
  }
}

// A block per kThreads columns and group of rows.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    column_sums_kernel(std::size_t rows, std::size_t n, std::size_t groups,
                       const Real* __restrict__ D, Real* __restrict__ partials) {
  const std::size_t tiles = ceil_divide(n, kThreads);
  for (std::size_t task = blockIdx.x; task < tiles * groups; task += gridDim.x) {
    const std::size_t column = task % tiles * kThreads + threadIdx.x, group = task / tiles;
    if (column >= n) continue;
    const Range range = group_of(rows, groups, group);
    Real sum = 0;
#pragma unroll 8
    for (std::size_t r = range.begin; r < range.end; ++r) sum += D[r * n + column];
    partials[group * n + column] = sum;
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    add_groups_kernel(std::size_t groups, std::size_t n, Real alpha,
                      const Real* __restrict__ partials, Real beta, Real* __restrict__ b) {
  const std::size_t step = gridDim.x * kThreads;
  for (std::size_t j = blockIdx.x * kThreads + threadIdx.x; j < n; j += step) {
    Real sum = 0;
#pragma unroll 8
    for (std::size_t g = 0; g < groups; ++g) sum += partials[g * n + j];
    b[j] = beta != Real(0) ? beta * b[j] + alpha * sum : alpha * sum;
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    sigmoid_kernel(SparseRows<Real> labels, const Real* __restrict__ bias, bool gradient,
                   Real scale, Real* __restrict__ Z, double* __restrict__ losses) {
  const std::size_t step = gridDim.x * kThreads;
  for (std::size_t r = blockIdx.x * kThreads + threadIdx.x; r < labels.rows; r += step) {
    const bool positive = labels.begin[r] < labels.begin[r + 1];
    const Real logit = bias != nullptr ? Z[r] + *bias : Z[r];
    const auto z = static_cast<double>(logit);
    // log(1 + e^-z) = max(-z, 0) + log(1 + e^-|z|): nothing overflows. NaN is not below 0.
    const double margin = positive ? -z : z;
    const double small = exp(-fabs(z));
    losses[r] = (margin < 0 ? 0.0 : margin) + log1p(small);
    const double sigmoid = z < 0 ? small / (1 + small) : 1 / (1 + small);
    Z[r] = gradient ? scale * static_cast<Real>(positive ? sigmoid - 1 : sigmoid) : logit;
  }
}

// --- the k largest -------------------------------------------------------------------------------

// Joins the lists of all threads of a block into that of thread 0: in each step the upper half of
// the threads that still have one hands it to the lower half.
template <class Real, int K>
__device__ void join(Best<Real, K>& mine) {
  __shared__ Real scores[kThreads / 2 * K];
  __shared__ std::uint32_t labels[kThreads / 2 * K];
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x >= half && threadIdx.x < 2 * half) {
      const unsigned at = (threadIdx.x - half) * K;
#pragma unroll
      for (int i = 0; i < K; ++i) {
        scores[at + i] = mine.score[i];
        labels[at + i] = mine.label[i];
      }
    }
    __syncthreads();
    if (threadIdx.x < half) {
      for (int i = 0; i < K; ++i)
        mine.insert(scores[threadIdx.x * K + i], labels[threadIdx.x * K + i]);
    }
    __syncthreads();
  }
}

template <class Real>
__device__ Real not_a_number() {
  return static_cast<Real>(nan(""));
}

// The K best of a piece of a row, a block per piece: scores and labels [rows x parts x K].
template <class Real, int K>
__global__ void __launch_bounds__(kThreads)
    top_of_pieces(std::size_t rows, std::size_t n, const Real* __restrict__ Z,
                  Real* __restrict__ scores, std::uint32_t* __restrict__ labels) {
  const std::size_t tasks = rows * ceil_divide(n, kTopSegment);
  for (std::size_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Tile tile = tile_of(task, n, kTopSegment);
    const Real* const z = Z + tile.row * n;
    Best<Real, K> best;
    best.clear(not_a_number<Real>());
#pragma unroll 4
    for (std::size_t j = tile.columns.begin + threadIdx.x; j < tile.columns.end; j += kThreads) {
      best.insert(z[j], static_cast<std::uint32_t>(j));
    }
    join(best);
    if (threadIdx.x == 0) {
      for (int i = 0; i < K; ++i) {
        scores[task * K + i] = best.score[i];
        labels[task * K + i] = best.label[i];
      }
    }
  }
}

// The k best of a row's candidates, a block per row.
template <class Real, int K>
__global__ void __launch_bounds__(kThreads)
    top_of_rows(std::size_t rows, std::size_t candidates, const Real* __restrict__ scores,
                const std::uint32_t* __restrict__ labels, std::size_t k,
                std::uint32_t* __restrict__ top) {
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Best<Real, K> best;
    best.clear(not_a_number<Real>());
    for (std::size_t i = threadIdx.x; i < candidates; i += kThreads) {
      best.insert(scores[row * candidates + i], labels[row * candidates + i]);
    }
    join(best);
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < K; ++i) {
        if (static_cast<std::size_t>(i) < k) top[row * k + i] = best.label[i];
      }
    }
  }
}

template <class Real, int K>
void launch_top_k(cudaStream_t stream, std::size_t rows, std::size_t n, const Real* Z,
                  std::size_t k, Real* scores, std::uint32_t* labels, std::uint32_t* top) {
  const std::size_t parts = top_parts(n);
  const auto pieces = static_cast<unsigned>(blocks_for(rows * parts, 1));
  top_of_pieces<Real, K><<<pieces, kThreads, 0, stream>>>(rows, n, Z, scores, labels);
  check_launch("kernel top_of_pieces");
  const auto blocks = static_cast<unsigned>(blocks_for(rows, 1));
  top_of_rows<Real, K><<<blocks, kThreads, 0, stream>>>(rows, parts * K, scores, labels, k, top);
  check_launch("kernel top_of_rows");
}

}  // namespace

template <class Real>
void bias_relu(cudaStream_t stream, std::size_t rows, std::size_t n, const Real* bias, Real* Y) {
  if (rows == 0 || n == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(rows * ceil_divide(n, kPiece), kWarps));
  bias_relu_kernel<<<blocks, kThreads, 0, stream>>>(rows, n, bias, Y);
  check_launch("kernel bias_relu");
}

template <class Real>
void relu_backward(cudaStream_t stream, std::size_t rows, std::size_t n, const Real* Y, Real* D) {
  if (rows == 0 || n == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(rows * n, kThreads));
  relu_backward_kernel<<<blocks, kThreads, 0, stream>>>(rows * n, Y, D);
  check_launch("kernel relu_backward");
}

template <class Real>
void column_sums(cudaStream_t stream, std::size_t rows, std::size_t n, Real alpha, const Real* D,
                 Real beta, Real* b, Real* partials) {
  if (n == 0) return;
  const std::size_t groups = row_groups(rows, n);
  if (groups > 0) {
    const std::size_t blocks = blocks_for(ceil_divide(n, kThreads) * groups, 1);
    column_sums_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(rows, n, groups, D,
                                                                               partials);
    check_launch("kernel column_sums");
  }
  add_groups(stream, groups, n, alpha, partials, beta, b);
}

template <class Real>
void add_groups(cudaStream_t stream, std::size_t groups, std::size_t n, Real alpha,
                const Real* partials, Real beta, Real* b) {
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(n, kThreads));
  add_groups_kernel<<<blocks, kThreads, 0, stream>>>(groups, n, alpha, partials, beta, b);
  check_launch("kernel add_groups");
}

template <class Real>
void sigmoid_rows(cudaStream_t stream, const SparseRows<Real>& labels, const Real* bias,
                  bool gradient, Real scale, Real* Z, double* losses) {
  if (labels.rows == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(labels.rows, kThreads));
  sigmoid_kernel<<<blocks, kThreads, 0, stream>>>(labels, bias, gradient, scale, Z, losses);
  check_launch("kernel sigmoid_rows");
}

std::size_t top_width(std::size_t k) { return k <= 1 ? 1 : k <= 5 ? 5 : 16; }

std::size_t top_parts(std::size_t n) { return ceil_divide(n, kTopSegment); }

template <class Real>
void top_k(cudaStream_t stream, std::size_t rows, std::size_t n, const Real* Z, std::size_t k,
           Real* scores, std::uint32_t* labels, std::uint32_t* top) {
  if (rows == 0) return;
  switch (top_width(k)) {
    case 1:
      return launch_top_k<Real, 1>(stream, rows, n, Z, k, scores, labels, top);
    case 5:
      return launch_top_k<Real, 5>(stream, rows, n, Z, k, scores, labels, top);
    default:
      return launch_top_k<Real, 16>(stream, rows, n, Z, k, scores, labels, top);
  }
}

#define HETSGD_INSTANTIATE(Real)                                                                   \
  template void bias_relu<Real>(cudaStream_t, std::size_t, std::size_t, const Real*, Real*);       \
  template void relu_backward<Real>(cudaStream_t, std::size_t, std::size_t, const Real*, Real*);   \
  template void column_sums<Real>(cudaStream_t, std::size_t, std::size_t, Real, const Real*, Real, \
                                  Real*, Real*);                                                   \
  template void add_groups<Real>(cudaStream_t, std::size_t, std::size_t, Real, const Real*, Real,  \
                                 Real*);                                                           \
  template void sigmoid_rows<Real>(cudaStream_t, const SparseRows<Real>&, const Real*, bool, Real, \
                                   Real*, double*);                                                \
  template void top_k<Real>(cudaStream_t, std::size_t, std::size_t, const Real*, std::size_t,      \
                            Real*, std::uint32_t*, std::uint32_t*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
