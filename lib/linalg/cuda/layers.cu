#include "linalg/cuda/check.hpp"
#include "linalg/cuda/index.hpp"
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

#define HETSGD_INSTANTIATE(Real)                                                                   \
  template void bias_relu<Real>(cudaStream_t, std::size_t, std::size_t, const Real*, Real*);       \
  template void relu_backward<Real>(cudaStream_t, std::size_t, std::size_t, const Real*, Real*);   \
  template void column_sums<Real>(cudaStream_t, std::size_t, std::size_t, Real, const Real*, Real, \
                                  Real*, Real*);                                                   \
  template void add_groups<Real>(cudaStream_t, std::size_t, std::size_t, Real, const Real*, Real,  \
                                 Real*);                                                           \
  template void sigmoid_rows<Real>(cudaStream_t, const SparseRows<Real>&, const Real*, bool, Real, \
                                   Real*, double*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
