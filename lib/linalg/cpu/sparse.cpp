// The sparse kernels of the CPU.
#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/simd.hpp"
#include "linalg/sparse_kernels.hpp"

namespace hetsgd::cpu {

namespace {

// Rows of a large W come from memory in random order, which no hardware prefetcher predicts. So a
// row is prefetched this many nonzeros ahead.
constexpr std::uint64_t kAhead = 4;

template <class Real>
HETSGD_INLINE void prefetch_row(const Real* row, std::size_t width) {
  const char* p = reinterpret_cast<const char*>(row);
  for (std::size_t b = 0; b < width * sizeof(Real); b += 64) __builtin_prefetch(p + b);
}

template <class Real>
HETSGD_INLINE Real value_of(const SparseRows<Real>& X, std::uint64_t at) {
  return X.value ? static_cast<Real>(X.value[at]) : Real(1);
}

// Y[row, j .. j + vectors * lanes) = sum of value * W rows + bias.
template <class Real, int vectors>
void forward_chunk(const SparseRows<Real>& X, Range at, std::size_t n, const Real* W,
                   const Real* bias, bool relu, Real* y) {
  constexpr std::size_t kWidth = kLanes<Real>;
  Vec<Real> sum[vectors];
  for (std::size_t v = 0; v < vectors; ++v) sum[v] = bias ? load(bias + v * kWidth) : Vec<Real>{};
  for (std::uint64_t k = at.begin; k < at.end; ++k) {
    const Real* w = W + X.index[k] * n;
    if (k + kAhead < at.end) prefetch_row(W + X.index[k + kAhead] * n, vectors * kWidth);
    const Vec<Real> x = broadcast(value_of(X, k));
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) sum[v] = fused(x, load(w + v * kWidth), sum[v]);
  }
  for (std::size_t v = 0; v < vectors; ++v) {
    store(y + v * kWidth, relu ? vector_relu<Real>(sum[v]) : sum[v]);
  }
}

template <class Real>
void forward_column(const SparseRows<Real>& X, Range at, std::size_t n, const Real* W,
                    const Real* bias, bool relu, Real* y) {
  Real sum = bias ? *bias : Real(0);
  for (std::uint64_t k = at.begin; k < at.end; ++k)
    sum = fused(value_of(X, k), W[X.index[k] * n], sum);
  *y = relu && sum < Real(0) ? Real(0) : sum;
}

// W rows [columns of one core] += alpha * value * d.
template <class Real>
HETSGD_INLINE void update_row(std::size_t width, Real x, const Real* d, Real* w) {
  constexpr std::size_t kWidth = kLanes<Real>;
  std::size_t j = 0;
  for (; j + kWidth <= width; j += kWidth) store(w + j, fused(load(d + j), x, load(w + j)));
  for (; j < width; ++j) w[j] = fused(d[j], x, w[j]);
}

template <class Real>
class CpuSparseKernels final : public BasicSparseKernels<Real> {
 public:
  explicit CpuSparseKernels(const Cores& cores) : cores_(cores) {}

  // Split by rows.
  void forward(const SparseRows<Real>& X, std::size_t n, const Real* W, const Real* bias, bool relu,
               Real* Y) override {
    constexpr std::size_t kWidth = kLanes<Real>;
    constexpr int kWide = 8 / static_cast<int>(kRegisters);  // eight registers of sums
    cores_.split(X.rows, 1, 8, [&](Range rows) {
      for (std::size_t r = rows.begin; r < rows.end; ++r) {
        const std::size_t source = X.source_row(r);
        const Range at{X.begin[source], X.begin[source + 1]};
        Real* y = Y + r * n;
        const auto b = [bias](std::size_t j) { return bias ? bias + j : nullptr; };
        std::size_t j = 0;
        for (; j + kWide * kWidth <= n; j += kWide * kWidth)
          forward_chunk<Real, kWide>(X, at, n, W + j, b(j), relu, y + j);
        for (; j + 2 * kWidth <= n; j += 2 * kWidth)
          forward_chunk<Real, 2>(X, at, n, W + j, b(j), relu, y + j);
        for (; j + kWidth <= n; j += kWidth)
          forward_chunk<Real, 1>(X, at, n, W + j, b(j), relu, y + j);
        for (; j < n; ++j) forward_column(X, at, n, W + j, b(j), relu, y + j);
      }
    });
  }

  // Split by columns, so that no two cores share a row of W and every sum has one order.
  void update(const SparseRows<Real>& X, std::size_t n, Real alpha, const Real* D,
              Real* W) override {
    constexpr std::size_t kLeastColumns = 16;  // columns per core
    cores_.split(n, kLanes<Real>, kLeastColumns, [&](Range columns) {
      for (std::size_t r = 0; r < X.rows; ++r) {
        const std::size_t source = X.source_row(r);
        const std::uint64_t end = X.begin[source + 1];
        const Real* d = D + r * n + columns.begin;
        for (std::uint64_t k = X.begin[source]; k < end; ++k) {
          if (k + kAhead < end)
            prefetch_row(W + X.index[k + kAhead] * n + columns.begin, columns.size());
          update_row(columns.size(), alpha * value_of(X, k), d, W + X.index[k] * n + columns.begin);
        }
      }
    });
  }

 private:
  const Cores& cores_;
};

const RegisterKernels<Backend, BasicSparseKernels, CpuSparseKernels> sparse_kernels;

}  // namespace

}  // namespace hetsgd::cpu
