// The factorisation kernels of the CPU.
#include <algorithm>
#include <utility>
#include <vector>

#include "linalg/cores/memory.hpp"
#include "linalg/cpu/backend.hpp"
#include "linalg/factorization_kernels.hpp"

namespace hetsgd::cpu {

namespace {

// Scratch that holds zeros between two calls.
template <class Real>
struct PairWeights {
  std::vector<Real> sum;  // [columns x n]
};

template <class Real>
class CpuFactorizationKernels final : public BasicFactorizationKernels<Real> {
 public:
  explicit CpuFactorizationKernels(const Cores& cores) : cores_(cores), weights_(cores) {}

  // Split by rows.
  void forward(const SparseRows<Real>& X, std::size_t n, std::size_t K, const Real* V, Real* S,
               Real* Z) override {
    const std::size_t width = n * K;
    cores_.split(X.rows, 1, 8, [&](Range rows) {
      for (std::size_t r = rows.begin; r < rows.end; ++r) {
        Real* const s = S + r * width;
        std::fill_n(s, width, Real(0));
        each_nonzero(X, r, [&](std::size_t column, Real x) {
          const Real* const v = V + column * width;
          for (std::size_t j = 0; j < width; ++j) s[j] += x * v[j];
        });
        Real* const z = Z + r * n;
        each_nonzero(X, r, [&](std::size_t column, Real x) {
          const Real* const v = V + column * width;
          for (std::size_t l = 0; l < n; ++l) z[l] -= x * x * half_norm(v + l * K, K);
        });
        for (std::size_t l = 0; l < n; ++l) z[l] += half_norm(s + l * K, K);
      }
    });
  }

  // Split by machines, so that no two cores share a row of G and every sum has one order. First
  // t_il = sum over r of D_rl x_ri^2, the weight of -v_ilk in the gradient, is computed for all
  // rows of X. At the first occurrence of each column of X that part of the gradient is applied;
  // the rest is only added to G.
  void backward(const SparseRows<Real>& X, std::size_t n, std::size_t K, Real alpha, const Real* D,
                const Real* S, const Real* V, Real* G) override {
    const std::size_t width = n * K;
    std::vector<Real>& t = weights_.get().sum;
    if (t.size() < X.columns * n) t.resize(X.columns * n);
    cores_.split(n, 1, 16, [&](Range machines) {
      const auto each = [&](auto&& call) {  // call(row, column, x, machine)
        for (std::size_t r = 0; r < X.rows; ++r) {
          each_nonzero(X, r, [&](std::size_t column, Real x) {
            for (std::size_t l = machines.begin; l < machines.end; ++l) call(r, column, x, l);
          });
        }
      };
      each([&](std::size_t r, std::size_t column, Real x, std::size_t l) {
        t[column * n + l] += D[r * n + l] * x * x;
      });
      each([&](std::size_t, std::size_t column, Real, std::size_t l) {
        const Real weight = std::exchange(t[column * n + l], Real(0));
        if (weight == Real(0)) return;  // NaN is not equal to 0
        const std::size_t at = column * width + l * K;
        const Real factor = alpha * weight;
        for (std::size_t k = 0; k < K; ++k) G[at + k] -= factor * V[at + k];
      });
      each([&](std::size_t r, std::size_t column, Real x, std::size_t l) {
        const Real d = alpha * D[r * n + l] * x;
        const Real* const s = S + r * width + l * K;
        Real* const g = G + column * width + l * K;
        for (std::size_t k = 0; k < K; ++k) g[k] += d * s[k];
      });
    });
  }

 private:
  template <class Call>
  static void each_nonzero(const SparseRows<Real>& X, std::size_t row, Call&& call) {
    const std::size_t source = X.source_row(row);
    for (std::uint64_t at = X.begin[source]; at < X.begin[source + 1]; ++at) {
      call(std::size_t{X.index[at]}, X.value ? static_cast<Real>(X.value[at]) : Real(1));
    }
  }

  static Real half_norm(const Real* v, std::size_t K) {
    Real sum = 0;
    for (std::size_t k = 0; k < K; ++k) sum += v[k] * v[k];
    return sum / 2;
  }

  const Cores& cores_;
  DeviceScratch<PairWeights<Real>> weights_;
};

const RegisterKernels<Backend, BasicFactorizationKernels, CpuFactorizationKernels>
    factorization_kernels;

}  // namespace

}  // namespace hetsgd::cpu
