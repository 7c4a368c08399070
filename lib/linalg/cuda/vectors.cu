#include "linalg/cuda/block.cuh"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/vectors.hpp"

namespace hetsgd::cuda {

namespace {

// --- element by element --------------------------------------------------------------------------
// A kernel is a functor with load(i), which reads element i's operands, and store(i, operands).
// Each thread loads four elements before it stores any: bytes in flight are what bandwidth needs.

constexpr std::size_t kUnroll = 4;
constexpr std::size_t kBlockElements = kThreads * kUnroll;

template <class F>
__global__ void __launch_bounds__(kThreads) elementwise(std::size_t n, F f) {
  const std::size_t step = gridDim.x * kBlockElements;
  for (std::size_t base = blockIdx.x * kBlockElements; base < n; base += step) {
    typename F::Operands x[kUnroll];
#pragma unroll
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const std::size_t i = base + u * kThreads + threadIdx.x;
      if (i < n) x[u] = f.load(i);
    }
#pragma unroll
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const std::size_t i = base + u * kThreads + threadIdx.x;
      if (i < n) f.store(i, x[u]);
    }
  }
}

template <class F>
void launch_elementwise(cudaStream_t stream, std::size_t n, const F& f, const char* name) {
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(n, kBlockElements));
  elementwise<<<blocks, kThreads, 0, stream>>>(n, f);
  check_launch(name);
}

template <class Real>
struct Fill {
  Real a;
  Real* y;
  struct Operands {};
  __device__ Operands load(std::size_t) const { return {}; }
  __device__ void store(std::size_t i, Operands) const { y[i] = a; }
};

template <class Real>
struct Axpby {
  Real a;
  const Real* x;
  Real b;
  Real* y;
  struct Operands {
    Real x, y;
  };
  __device__ Operands load(std::size_t i) const { return {x[i], b != Real(0) ? y[i] : Real(0)}; }
  __device__ void store(std::size_t i, Operands o) const {
    y[i] = b != Real(0) ? a * o.x + b * o.y : a * o.x;
  }
};

template <class Real>
struct MomentumMerge {
  const Real* merged;
  Real gamma;
  Real* w;
  Real* previous;
  struct Operands {
    Real merged, w, previous;
  };
  __device__ Operands load(std::size_t i) const { return {merged[i], w[i], previous[i]}; }
  __device__ void store(std::size_t i, Operands o) const {
    previous[i] = o.w;
    w[i] = o.merged + gamma * (o.w - o.previous);
  }
};

template <class Real>
struct MomentumStep {
  MomentumRule<Real> rule;
  const Real* g;
  Real* v;
  Real* w;
  struct Operands {
    Real g, v, w;
  };
  __device__ Operands load(std::size_t i) const { return {g[i], v[i], w[i]}; }
  __device__ void store(std::size_t i, Operands o) const {
    const Real u = rule.gradient * o.g + rule.decay * o.w;
    const Real next = rule.momentum * o.v + u;
    v[i] = next;
    w[i] = o.w - (rule.velocity * next + rule.direct * u);
  }
};

template <class Real>
__device__ void take_moments(const MomentRule<Real>& rule, Real g, Real w, Real& m, Real& v) {
  const Real u = rule.gradient * g + rule.decay * w;
  m = rule.beta1 * m + rule.fresh1 * u;
  v = rule.beta2 * v + rule.fresh2 * (u * u);
}

template <class Real>
__device__ Real direction(const MomentRule<Real>& rule, Real m, Real v, Real w) {
  return rule.first * m / (sqrt(rule.second * v) + rule.epsilon) + rule.shrink * w;
}

template <class Real>
struct MomentStep {
  MomentRule<Real> rule;
  Real step;
  const Real* g;
  Real* m;
  Real* v;
  Real* w;
  struct Operands {
    Real g, m, v, w;
  };
  __device__ Operands load(std::size_t i) const { return {g[i], m[i], v[i], w[i]}; }
  __device__ void store(std::size_t i, Operands o) const {
    take_moments(rule, o.g, o.w, o.m, o.v);
    m[i] = o.m;
    v[i] = o.v;
    w[i] = o.w - step * direction(rule, o.m, o.v, o.w);
  }
};

template <class Real>
struct MomentApply {
  MomentRule<Real> rule;
  Real step;
  const Real* m;
  const Real* v;
  Real* w;
  struct Operands {
    Real m, v, w;
  };
  __device__ Operands load(std::size_t i) const { return {m[i], v[i], w[i]}; }
  __device__ void store(std::size_t i, Operands o) const {
    w[i] = o.w - step * direction(rule, o.m, o.v, o.w);
  }
};

// --- sums ----------------------------------------------------------------------------------------
// Block b adds up every gridDim.x-th piece of kThreads terms, the grid's size follows from n alone,
// and one block adds up the blocks' sums: always the same order.

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

__global__ void __launch_bounds__(kThreads)
    add_up_kernel(std::size_t n, const double* x, double* result) {
  __shared__ double scratch[kWarps];
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < n; i += kThreads) sum += x[i];
  sum = reduce_block(sum, Sum(), scratch);
  if (threadIdx.x == 0) *result = sum;
}

template <class F>
void launch_reduce(cudaStream_t stream, std::size_t n, const F& f, double* partials, double* sum,
                   const char* name) {
  const std::size_t blocks = partial_sums(n);
  if (blocks > 0) {
    reduce<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(n, f, partials);
    check_launch(name);
  }
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

template <class Real>
struct MomentUpdate {
  MomentRule<Real> rule;
  const Real* g;
  const Real* w;
  Real* m;
  Real* v;
  __device__ double operator()(std::size_t i) const {
    Real mi = m[i], vi = v[i];
    const Real wi = w[i];
    take_moments(rule, g[i], wi, mi, vi);
    m[i] = mi;
    v[i] = vi;
    const auto r = static_cast<double>(direction(rule, mi, vi, wi));
    return r * r;
  }
};

// --- rows ----------------------------------------------------------------------------------------
// A warp per piece of a row, so that a few long rows keep as many threads busy as many short ones.

constexpr std::size_t kPiece = kWarp * 16;

// f(row, column) for all columns of `count` rows.
template <class F>
__global__ void __launch_bounds__(kThreads) rowwise(std::size_t count, std::size_t n, F f) {
  const std::size_t tasks = count * ceil_divide(n, kPiece);
  const std::size_t lane = threadIdx.x % kWarp;
  for (std::size_t task = blockIdx.x * kWarps + threadIdx.x / kWarp; task < tasks;
       task += gridDim.x * kWarps) {
    const Tile tile = tile_of(task, n, kPiece);
    const std::size_t row = f.row(tile.row);
#pragma unroll 4
    for (std::size_t j = tile.columns.begin + lane; j < tile.columns.end; j += kWarp) f(row, j);
  }
}

template <class F>
void launch_rowwise(cudaStream_t stream, std::size_t count, std::size_t n, const F& f,
                    const char* name) {
  if (count == 0 || n == 0) return;
  const std::size_t blocks = blocks_for(count * ceil_divide(n, kPiece), kWarps);
  rowwise<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(count, n, f);
  check_launch(name);
}

template <class Real>
struct FillRows {
  const std::uint32_t* rows;
  std::size_t n;
  Real a;
  Real* Y;
  __device__ std::size_t row(std::size_t i) const { return rows[i]; }
  __device__ void operator()(std::size_t row, std::size_t j) const { Y[row * n + j] = a; }
};

template <class Real>
struct AddRows {
  const std::uint32_t* rows;
  std::size_t n;
  Real a;
  const Real* __restrict__ X;
  Real* __restrict__ Y;
  __device__ std::size_t row(std::size_t i) const { return rows[i]; }
  __device__ void operator()(std::size_t row, std::size_t j) const {
    Y[row * n + j] += a * X[row * n + j];
  }
};

template <class Real>
struct ScaleMatrix {
  Real beta;
  Real* C;
  std::size_t ldc;
  __device__ std::size_t row(std::size_t i) const { return i; }
  __device__ void operator()(std::size_t row, std::size_t j) const {
    Real& c = C[row * ldc + j];
    c = beta != Real(0) ? beta * c : Real(0);
  }
};

}  // namespace

template <class Real>
void fill(cudaStream_t stream, std::size_t n, Real a, Real* y) {
  launch_elementwise(stream, n, Fill<Real>{a, y}, "kernel fill");
}

template <class Real>
void axpby(cudaStream_t stream, std::size_t n, Real a, const Real* x, Real b, Real* y) {
  launch_elementwise(stream, n, Axpby<Real>{a, x, b, y}, "kernel axpby");
}

template <class Real>
void momentum_merge(cudaStream_t stream, std::size_t n, const Real* merged, Real gamma, Real* w,
                    Real* previous) {
  launch_elementwise(stream, n, MomentumMerge<Real>{merged, gamma, w, previous},
                     "kernel momentum_merge");
}

template <class Real>
void momentum_step(cudaStream_t stream, std::size_t n, const MomentumRule<Real>& rule,
                   const Real* g, Real* v, Real* w) {
  launch_elementwise(stream, n, MomentumStep<Real>{rule, g, v, w}, "kernel momentum_step");
}

template <class Real>
void moment_step(cudaStream_t stream, std::size_t n, const MomentRule<Real>& rule, Real step,
                 const Real* g, Real* m, Real* v, Real* w) {
  launch_elementwise(stream, n, MomentStep<Real>{rule, step, g, m, v, w}, "kernel moment_step");
}

template <class Real>
void moment_apply(cudaStream_t stream, std::size_t n, const MomentRule<Real>& rule, Real step,
                  const Real* m, const Real* v, Real* w) {
  launch_elementwise(stream, n, MomentApply<Real>{rule, step, m, v, w}, "kernel moment_apply");
}

void add_up(cudaStream_t stream, std::size_t n, const double* x, double* sum) {
  add_up_kernel<<<1, kThreads, 0, stream>>>(n, x, sum);
  check_launch("kernel add_up");
}

template <class Real>
void dot(cudaStream_t stream, std::size_t n, const Real* x, const Real* y, double* partials,
         double* sum) {
  launch_reduce(stream, n, Product<Real>{x, y}, partials, sum, "kernel dot");
}

template <class Real>
void moment_update(cudaStream_t stream, std::size_t n, const MomentRule<Real>& rule, const Real* g,
                   const Real* w, Real* m, Real* v, double* partials, double* sum) {
  launch_reduce(stream, n, MomentUpdate<Real>{rule, g, w, m, v}, partials, sum,
                "kernel moment_update");
}

template <class Real>
void fill_rows(cudaStream_t stream, std::size_t count, const std::uint32_t* rows, std::size_t n,
               Real a, Real* Y) {
  launch_rowwise(stream, count, n, FillRows<Real>{rows, n, a, Y}, "kernel fill_rows");
}

template <class Real>
void add_rows(cudaStream_t stream, std::size_t count, const std::uint32_t* rows, std::size_t n,
              Real a, const Real* X, Real* Y) {
  launch_rowwise(stream, count, n, AddRows<Real>{rows, n, a, X, Y}, "kernel add_rows");
}

template <class Real>
void scale_matrix(cudaStream_t stream, std::size_t m, std::size_t n, Real beta, Real* C,
                  std::size_t ldc) {
  launch_rowwise(stream, m, n, ScaleMatrix<Real>{beta, C, ldc}, "kernel scale_matrix");
}

void check_kernels() {
  cudaFuncAttributes attributes;
  HETSGD_CUDA(cudaFuncGetAttributes(&attributes, add_up_kernel));
}

#define HETSGD_INSTANTIATE(Real)                                                                   \
  template void fill<Real>(cudaStream_t, std::size_t, Real, Real*);                                \
  template void axpby<Real>(cudaStream_t, std::size_t, Real, const Real*, Real, Real*);            \
  template void momentum_merge<Real>(cudaStream_t, std::size_t, const Real*, Real, Real*, Real*);  \
  template void momentum_step<Real>(cudaStream_t, std::size_t, const MomentumRule<Real>&,          \
                                    const Real*, Real*, Real*);                                    \
  template void moment_step<Real>(cudaStream_t, std::size_t, const MomentRule<Real>&, Real,        \
                                  const Real*, Real*, Real*, Real*);                               \
  template void moment_apply<Real>(cudaStream_t, std::size_t, const MomentRule<Real>&, Real,       \
                                   const Real*, const Real*, Real*);                               \
  template void dot<Real>(cudaStream_t, std::size_t, const Real*, const Real*, double*, double*);  \
  template void moment_update<Real>(cudaStream_t, std::size_t, const MomentRule<Real>&,            \
                                    const Real*, const Real*, Real*, Real*, double*, double*);     \
  template void fill_rows<Real>(cudaStream_t, std::size_t, const std::uint32_t*, std::size_t,      \
                                Real, Real*);                                                      \
  template void add_rows<Real>(cudaStream_t, std::size_t, const std::uint32_t*, std::size_t, Real, \
                               const Real*, Real*);                                                \
  template void scale_matrix<Real>(cudaStream_t, std::size_t, std::size_t, Real, Real*,            \
                                   std::size_t);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cuda
