// The interaction kernels of the CPU. All of them are split by rows.
#include <algorithm>

#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/simd.hpp"
#include "linalg/interaction_kernels.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kLeastRows = 16;  // per core

// x.y, lanes added pairwise.
template <class Real>
Real row_dot(std::size_t n, const Real* x, const Real* y) {
  constexpr std::size_t kWidth = kLanes<Real>;
  Vec<Real> sum{};
  std::size_t j = 0;
  for (; j + kWidth <= n; j += kWidth) sum = fused(load(x + j), load(y + j), sum);
  Real total = horizontal_sum<Real>(sum);
  for (; j < n; ++j) total = fused(x[j], y[j], total);
  return total;
}

template <class Real>
class CpuInteractionKernels final : public BasicInteractionKernels<Real> {
 public:
  explicit CpuInteractionKernels(const Cores& cores) : cores_(cores) {}

  void fm_forward(std::size_t rows, const FieldVectors& shape, const Real* Y, Real* S,
                  Real* z) override {
    const std::size_t D = shape.embedding;
    each_row(rows, [&](std::size_t r) {
      const Real* v = Y + r * shape.width + shape.first;
      Real* const s = S + r * D;
      std::fill_n(s, D, Real(0));
      Real squares = 0;
      for (std::size_t f = 0; f < shape.fields; ++f, v += D) {
        for (std::size_t k = 0; k < D; ++k) s[k] += v[k];
        squares += row_dot(D, v, v);
      }
      z[r] += (row_dot(D, s, s) - squares) / 2;
    });
  }

  void fm_backward(std::size_t rows, const FieldVectors& shape, const Real* Y, const Real* S,
                   const Real* d, Real* dY) override {
    const std::size_t D = shape.embedding;
    each_row(rows, [&](std::size_t r) {
      const Real* v = Y + r * shape.width + shape.first;
      Real* g = dY + r * shape.width + shape.first;
      const Real* const s = S + r * D;
      const Real factor = d[r];
      for (std::size_t f = 0; f < shape.fields; ++f, v += D, g += D) {
        for (std::size_t k = 0; k < D; ++k) g[k] += factor * (s[k] - v[k]);
      }
    });
  }

  std::size_t cross_rows() const override { return 256; }

  void cross_forward(std::size_t rows, std::size_t n, const Real* x0, const Real* x, const Real* w,
                     const Real* b, Real* s, Real* y) override {
    each_row(rows, [&](std::size_t r) {
      const Real *from = x0 + r * n, *mine = x + r * n;
      Real* const to = y + r * n;
      const Real factor = s[r] = row_dot(n, mine, w);
      for (std::size_t j = 0; j < n; ++j) to[j] = from[j] * factor + b[j] + mine[j];
    });
  }

  void cross_backward(std::size_t rows, std::size_t n, const Real* x0, const Real* w, const Real* s,
                      Real* t, Real* g, Real* dx0) override {
    each_row(rows, [&](std::size_t r) {
      Real *const mine = g + r * n, *const to = dx0 + r * n;
      const Real factor = t[r] = row_dot(n, mine, x0 + r * n), share = s[r];
      for (std::size_t j = 0; j < n; ++j) {
        to[j] += mine[j] * share;
        mine[j] += factor * w[j];
      }
    });
  }

 private:
  template <class F>
  void each_row(std::size_t rows, const F& f) const {
    cores_.split(rows, 1, kLeastRows, [&](Range range) {
      for (std::size_t r = range.begin; r < range.end; ++r) f(r);
    });
  }

  const Cores& cores_;
};

const RegisterKernels<Backend, BasicInteractionKernels, CpuInteractionKernels> interaction_kernels;

}  // namespace

}  // namespace hetsgd::cpu
