#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/vectors.hpp"

namespace hetsgd::cuda {

namespace {

// --- sums ----------------------------------------------------------------------------------------
// Block b adds up every gridDim.x-th piece of kThreads terms. The grid's size follows from n alone,
// and one block adds up the blocks' sums, so the order is always the same.

template <class F>
__global__ void __launch_bounds__(kThreads) reduce(std::size_t n, F f, double* partials) {
  __shared__ double scratch[kWarps];
  double sum[2] = {};  // two, to hide the latency of the additions
  const std::size_t step = gridDim.x * kThreads;
  std::size_t i = blockIdx.x * kThreads + threadIdx.x;
  for (; i + step < n; i += 2 * step) {
    const double first = f(i), second = f(i + step);
    sum[0] += first;
    sum[1] += second;
  }
  if (i < n) sum[0] += f(i);
  const double total = reduce_block(sum[0] + sum[1], Sum(), scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

// Block b sums the b-th group of `count` partials.
__global__ void __launch_bounds__(kThreads)
    add_up_kernel(std::size_t count, const double* partials, double* sums) {
  __shared__ double scratch[kWarps];
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += kThreads) {
    sum += partials[blockIdx.x * count + i];
  }
  sum = reduce_block(sum, Sum(), scratch);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// *sum <- f(0) + ... + f(n - 1). `partials` has room for kMostPartials numbers.
template <class F>
void launch_reduce(cudaStream_t stream, std::size_t n, const F& f, double* partials, double* sum,
                   const char* name) {
  const std::size_t blocks = partial_sums(n);
  launch(stream, blocks, 1, name, reduce<F>, n, f, partials);
  add_up(stream, blocks, partials, sum);
}

template <class Real>
struct Product {
  const Real* x;
  const Real* y;
  __device__ double operator()(std::size_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }
};

// Two elements are in flight per turn, and six sums hide the latency of the additions.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    products_kernel(std::size_t n, const Real* x, const Real* y, double* partials) {
  __shared__ double scratch[kWarps];
  double xy[2] = {}, xx[2] = {}, yy[2] = {};
  const std::size_t step = gridDim.x * kThreads;
  for (std::size_t i = blockIdx.x * kThreads + threadIdx.x; i < n; i += 2 * step) {
    const bool both = i + step < n;
    const double a[2] = {static_cast<double>(x[i]), both ? static_cast<double>(x[i + step]) : 0};
    const double b[2] = {static_cast<double>(y[i]), both ? static_cast<double>(y[i + step]) : 0};
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      xy[s] += a[s] * b[s];
      xx[s] += a[s] * a[s];
      yy[s] += b[s] * b[s];
    }
  }
  const double total[3] = {reduce_block(xy[0] + xy[1], Sum(), scratch),
                           reduce_block(xx[0] + xx[1], Sum(), scratch),
                           reduce_block(yy[0] + yy[1], Sum(), scratch)};
  if (threadIdx.x < 3) partials[threadIdx.x * gridDim.x + blockIdx.x] = total[threadIdx.x];
}

template <class Real>
struct ScaleMatrix {
  Real beta;
  Real* C;
  std::size_t ldc;
  __device__ void operator()(std::size_t row, std::size_t j) const {
    Real& c = C[row * ldc + j];
    c = beta != Real(0) ? beta * c : Real(0);
  }
};

template <class Real>
struct BiasRelu {
  const Real* __restrict__ bias;
  std::size_t n;
  Real* __restrict__ Y;
  __device__ void operator()(std::size_t row, std::size_t j) const {
    Real& y = Y[row * n + j];
    const Real x = y + bias[j];
    y = x < Real(0) ? Real(0) : x;  // NaN stays NaN
  }
};

// The value of element i that is added up.
template <class Real>
struct AsItIs {
  const Real* __restrict__ D;
  __device__ Real operator()(std::size_t i) const { return D[i]; }
};
template <class Real>
struct WithReluGradient {
  const Real* __restrict__ Y;
  Real* __restrict__ D;
  __device__ Real operator()(std::size_t i) const {
    Real d = D[i];
    rule::ReluGradient<Real>()(Y[i], d);
    D[i] = d;
    return d;
  }
};

// A block per kThreads columns and group of rows. The last block of its columns adds up the groups.
// Its threads see the others' sums, because these were written before a fence and a count.
template <class Real, class Element>
__global__ void __launch_bounds__(kThreads)
    column_sums_kernel(std::size_t rows, std::size_t n, std::size_t groups, Element element,
                       Real alpha, Real* b, ColumnScratch<Real> scratch) {
  __shared__ bool last;
  const std::size_t tiles = ceil_divide(n, kThreads);
  for (std::size_t task = blockIdx.x; task < tiles * groups; task += gridDim.x) {
    const std::size_t tile = task % tiles, group = task / tiles;
    const std::size_t column = tile * kThreads + threadIdx.x;
    if (column < n) {
      const Range range = group_of(rows, groups, group);
      Real sum = 0;
#pragma unroll 8
      for (std::size_t r = range.begin; r < range.end; ++r) sum += element(r * n + column);
      scratch.partials[group * n + column] = sum;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&scratch.arrived[tile], 1U) == groups - 1;
    __syncthreads();
    if (!last) continue;
    __threadfence();
    if (threadIdx.x == 0) scratch.arrived[tile] = 0;
    if (column >= n) continue;
    Real sum = 0;
#pragma unroll 8
    for (std::size_t g = 0; g < groups; ++g) sum += scratch.partials[g * n + column];
    b[column] += alpha * sum;
  }
}

template <class Real, class Element>
void launch_column_sums(cudaStream_t stream, std::size_t rows, std::size_t n, Real alpha,
                        const Element& element, Real* b, const ColumnScratch<Real>& scratch,
                        const char* name) {
  const std::size_t groups = row_groups(rows, n);
  launch(stream, ceil_divide(n, kThreads) * groups, 1, name, column_sums_kernel<Real, Element>,
         rows, n, groups, element, alpha, b, scratch);
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

// --- element-wise rules --------------------------------------------------------------------------

// Each thread loads four elements before it stores any, because bandwidth needs bytes in flight.
constexpr std::size_t kUnroll = 4;
constexpr std::size_t kBlockElements = kThreads * kUnroll;

template <class Call>
__global__ void __launch_bounds__(kThreads) elementwise(std::size_t n, Call call) {
  const std::size_t step = gridDim.x * kBlockElements;
  for (std::size_t base = blockIdx.x * kBlockElements; base < n; base += step) {
    typename Call::Operands x[kUnroll];
#pragma unroll
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const std::size_t i = base + u * kThreads + threadIdx.x;
      if (i < n) x[u] = call.load(i);
    }
#pragma unroll
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const std::size_t i = base + u * kThreads + threadIdx.x;
      if (i < n) call.store(i, x[u]);
    }
  }
}

template <class Call>
struct OnRows {
  const std::uint32_t* rows;
  std::size_t n;
  Call call;
  __device__ void operator()(std::size_t r, std::size_t j) const {
    const std::size_t i = rows[r] * n + j;
    call.store(i, call.load(i));
  }
};

template <class Call>
struct SquareOf {
  Call call;
  __device__ double operator()(std::size_t i) const {
    const auto r = static_cast<double>(call.update(i, call.load(i)));
    return r * r;
  }
};

template <class Call>
void launch_elementwise(cudaStream_t stream, std::size_t n, const Call& call) {
  launch(stream, n, kBlockElements, "kernel elementwise", elementwise<Call>, n, call);
}

template <class Call>
void launch_on_rows(cudaStream_t stream, std::size_t count, const std::uint32_t* rows,
                    std::size_t n, const Call& call) {
  launch_rowwise(stream, count, n, OnRows<Call>{rows, n, call}, "kernel elementwise on rows");
}

template <class Call>
void launch_norm(cudaStream_t stream, std::size_t n, const Call& call, double* partials,
                 double* sum) {
  launch_reduce(stream, n, SquareOf<Call>{call}, partials, sum, "kernel elementwise norm");
}

}  // namespace

void add_up(cudaStream_t stream, std::size_t n, const double* x, double* sum) {
  launch(stream, 1, 1, "kernel add_up", add_up_kernel, n, x, sum);
}

template <class Real>
void dot(cudaStream_t stream, std::size_t n, const Real* x, const Real* y, double* partials,
         double* sum) {
  launch_reduce(stream, n, Product<Real>{x, y}, partials, sum, "kernel dot");
}

template <class Real>
void products(cudaStream_t stream, std::size_t n, const Real* x, const Real* y, double* partials,
              double* sums) {
  const std::size_t blocks = partial_sums(n);
  launch(stream, blocks, 1, "kernel products", products_kernel<Real>, n, x, y, partials);
  launch(stream, 3, 1, "kernel add_up", add_up_kernel, blocks, partials, sums);
}

template <class Real>
void run_rule(cudaStream_t stream, std::size_t n, const ElementRule<Real>& rule) {
  if (n == 0) return;
  std::visit([&](const auto& call) { launch_elementwise(stream, n, call); }, rule);
}

template <class Real>
void run_rule_on_rows(cudaStream_t stream, std::size_t count, const std::uint32_t* rows,
                      std::size_t n, const ElementRule<Real>& rule) {
  std::visit([&](const auto& call) { launch_on_rows(stream, count, rows, n, call); }, rule);
}

template <class Real>
void run_norm_rule(cudaStream_t stream, std::size_t n, const NormRule<Real>& rule, double* partials,
                   double* sum) {
  std::visit([&](const auto& call) { launch_norm(stream, n, call, partials, sum); }, rule);
}

template <class Real>
void scale_matrix(cudaStream_t stream, std::size_t m, std::size_t n, Real beta, Real* C,
                  std::size_t ldc) {
  launch_rowwise(stream, m, n, ScaleMatrix<Real>{beta, C, ldc}, "kernel scale_matrix");
}

template <class Real>
void bias_relu(cudaStream_t stream, std::size_t rows, std::size_t n, const Real* bias, Real* Y) {
  launch_rowwise(stream, rows, n, BiasRelu<Real>{bias, n, Y}, "kernel bias_relu");
}

template <class Real>
void column_sums(cudaStream_t stream, std::size_t rows, std::size_t n, Real alpha, const Real* D,
                 Real* b, const ColumnScratch<Real>& scratch) {
  launch_column_sums(stream, rows, n, alpha, AsItIs<Real>{D}, b, scratch, "kernel column_sums");
}

template <class Real>
void relu_gradient_sums(cudaStream_t stream, std::size_t rows, std::size_t n, Real alpha,
                        const Real* Y, Real* D, Real* b, const ColumnScratch<Real>& scratch) {
  launch_column_sums(stream, rows, n, alpha, WithReluGradient<Real>{Y, D}, b, scratch,
                     "kernel relu_gradient_sums");
}

template <class Real>
void add_groups(cudaStream_t stream, std::size_t groups, std::size_t n, Real alpha,
                const Real* partials, Real beta, Real* b) {
  launch(stream, n, kThreads, "kernel add_groups", add_groups_kernel<Real>, groups, n, alpha,
         partials, beta, b);
}

void check_kernels() {
  cudaFuncAttributes attributes;
  HETSGD_CUDA(cudaFuncGetAttributes(&attributes, add_up_kernel));
}

#define HETSGD_INSTANTIATE(Real)                                                                  \
  template void run_rule<Real>(cudaStream_t, std::size_t, const ElementRule<Real>&);              \
  template void run_rule_on_rows<Real>(cudaStream_t, std::size_t, const std::uint32_t*,           \
                                       std::size_t, const ElementRule<Real>&);                    \
  template void run_norm_rule<Real>(cudaStream_t, std::size_t, const NormRule<Real>&, double*,    \
                                    double*);                                                     \
  template void dot<Real>(cudaStream_t, std::size_t, const Real*, const Real*, double*, double*); \
  template void products<Real>(cudaStream_t, std::size_t, const Real*, const Real*, double*,      \
                               double*);                                                          \
  template void scale_matrix<Real>(cudaStream_t, std::size_t, std::size_t, Real, Real*,           \
                                   std::size_t);                                                  \
  template void bias_relu<Real>(cudaStream_t, std::size_t, std::size_t, const Real*, Real*);      \
  template void column_sums<Real>(cudaStream_t, std::size_t, std::size_t, Real, const Real*,      \
                                  Real*, const ColumnScratch<Real>&);                             \
  template void relu_gradient_sums<Real>(cudaStream_t, std::size_t, std::size_t, Real,            \
                                         const Real*, Real*, Real*, const ColumnScratch<Real>&);  \
  template void add_groups<Real>(cudaStream_t, std::size_t, std::size_t, Real, const Real*, Real, \
                                 Real*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
