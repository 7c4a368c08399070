// The output layer kernels of the CPU. The two that work block of labels by block have files of
// their own: softmax_layer.cpp and softmax_ranks.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "linalg/cores/memory.hpp"
#include "linalg/cpu/backend.hpp"
#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/simd.hpp"
#include "linalg/cpu/softmax_layer.hpp"
#include "linalg/cpu/softmax_ranks.hpp"
#include "linalg/output_layer_kernels.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kLeast = std::size_t{1} << 14;  // elements that are worth a second core

std::size_t rows_worth_a_core(std::size_t n) { return kLeast / std::max<std::size_t>(n, 1) + 1; }

// z <- z + bias in place. Returns the largest entry, ignoring NaN.
template <class Real>
Real add_bias(std::size_t n, const Real* bias, Real* z) {
  constexpr std::size_t kWidth = kLanes<Real>;
  Vec<Real> largest = broadcast(-std::numeric_limits<Real>::infinity());
  std::size_t j = 0;
  for (; j + kWidth <= n; j += kWidth) {
    const Vec<Real> x = bias ? load(z + j) + load(bias + j) : load(z + j);
    store(z + j, x);
    largest = vector_max<Real>(largest, x);
  }
  Real best = horizontal_max<Real>(largest);
  for (; j < n; ++j) {
    if (bias) z[j] += bias[j];
    best = z[j] > best ? z[j] : best;
  }
  return best;
}

// The sum of exp(z - largest). keep: z becomes those exponentials. Partial sums of 64 vectors are
// added in double.
template <class Real, bool keep>
double exponentials(std::size_t n, Real largest, Real* z) {
  constexpr std::size_t kWidth = kLanes<Real>;
  const Vec<Real> top = broadcast(largest);
  double total = 0;
  std::size_t j = 0;
  while (j + kWidth <= n) {
    Vec<Real> sum{};
    const std::size_t end = std::min(n, j + 64 * kWidth);
    for (; j + kWidth <= end; j += kWidth) {
      const Vec<Real> e = exp_nonpositive(load(z + j) - top);
      if constexpr (keep) store(z + j, e);
      sum += e;
    }
    total += static_cast<double>(horizontal_sum<Real>(sum));
  }
  if (j < n) {
    const Vec<Real> rest = load_partial(z + j, n - j, -std::numeric_limits<Real>::infinity());
    const Vec<Real> e = exp_nonpositive(rest - top);
    if constexpr (keep) store_partial(z + j, n - j, e);
    total += static_cast<double>(horizontal_sum<Real>(e));
  }
  return total;
}

template <class Real>
double softmax_row(const SparseRows<Real>& labels, std::size_t row, std::size_t n, const Real* bias,
                   bool gradient, Real scale, Real* z) {
  const std::size_t source = labels.source_row(row);
  const std::uint64_t begin = labels.begin[source], end = labels.begin[source + 1];
  const auto count = static_cast<double>(end - begin);
  if (begin == end && gradient) {
    std::fill_n(z, n, Real(0));
    return 0;
  }
  const Real largest = add_bias(n, bias, z);
  if (begin == end) return 0;
  double true_logit = 0;
  for (std::uint64_t at = begin; at < end; ++at) {
    true_logit += static_cast<double>(z[labels.index[at]]);
  }
  const double sum =
      gradient ? exponentials<Real, true>(n, largest, z) : exponentials<Real, false>(n, largest, z);
  if (gradient) {
    const auto factor = static_cast<Real>(static_cast<double>(scale) / sum);
    for (std::size_t j = 0; j < n; ++j) z[j] *= factor;
    const auto target = static_cast<Real>(static_cast<double>(scale) / count);
    for (std::uint64_t at = begin; at < end; ++at) z[labels.index[at]] -= target;
  }
  return static_cast<double>(largest) + std::log(sum) - true_logit / count;
}

template <class Real>
void top_k_row(std::size_t n, const Real* z, std::size_t k, std::uint32_t* top) {
  constexpr std::size_t kWidth = kLanes<Real>;
  constexpr std::size_t kStride = 4 * kWidth;
  Best<Real> best;
  std::size_t j = 0;
  const auto one_by_one = [&](std::size_t end) {
    for (; j < end; ++j) best.insert(k, z[j], static_cast<std::uint32_t>(j));
  };
  one_by_one(std::min(n, std::max(k, kStride)));
  while (j + kStride <= n) {
    // Most strides hold nothing above the k-th best, which one comparison of their maximum shows. A
    // NaN k-th best is beaten by any number, so then every stride is read.
    const Vec<Real> a = vector_max<Real>(load(z + j), load(z + j + kWidth));
    const Vec<Real> b = vector_max<Real>(load(z + j + 2 * kWidth), load(z + j + 3 * kWidth));
    const Vec<Real> bar = broadcast(best.score[k - 1]);
    // A NaN among the operands of a maximum may have hidden the other one, so such a stride is
    // read, too.
    const auto suspicious = (a > bar) | (b > bar) | (a != a) | (b != b);
    if (std::isnan(best.score[k - 1])) {
      one_by_one(j + kStride);
    } else if (any_lane(suspicious)) {
      for (const std::size_t end = j + kStride; j < end; ++j) {
        if (z[j] > best.score[k - 1]) best.insert(k, z[j], static_cast<std::uint32_t>(j));
      }
    } else {
      j += kStride;
    }
  }
  one_by_one(n);
  std::copy_n(best.label, k, top);
}

// Returns the row's loss. gradient: z becomes scale * (sigmoid - t); else z + bias.
template <class Real>
double sigmoid_row(const SparseRows<Real>& labels, std::size_t row, std::size_t n, const Real* bias,
                   bool gradient, Real scale, Real* Z) {
  const std::size_t source = labels.source_row(row);
  std::uint64_t next = labels.begin[source];
  double loss = 0;
  for (std::size_t l = 0; l < n; ++l) {
    const bool positive = next < labels.begin[source + 1] && labels.index[next] == l;
    if (positive) ++next;
    if (bias) Z[l] += bias[l];
    const auto z = static_cast<double>(Z[l]);
    // log(1 + e^-z) = max(-z, 0) + log(1 + e^-|z|), so that nothing overflows. (A ternary, because
    // std::max drops NaN.)
    const double margin = positive ? -z : z;
    const double small = std::exp(-std::abs(z));
    loss += (margin < 0 ? 0.0 : margin) + std::log1p(small);
    if (!gradient) continue;
    const double sigmoid = z < 0 ? small / (1 + small) : 1 / (1 + small);
    Z[l] = scale * static_cast<Real>(positive ? sigmoid - 1 : sigmoid);
  }
  return loss;
}

template <class Real>
class CpuOutputLayerKernels final : public BasicOutputLayerKernels<Real> {
 public:
  explicit CpuOutputLayerKernels(const Backend& cores)
      : cores_(cores), losses_(cores), layer_(cores), ranks_(cores) {}

  DeferredSum softmax_cross_entropy(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                                    Real scale, Real* Z) override {
    return softmax_rows(labels, n, bias, true, scale, Z);
  }
  DeferredSum softmax_loss(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                           Real* Z) override {
    return softmax_rows(labels, n, bias, false, Real(1), Z);
  }
  DeferredSum softmax_layer(const SparseRows<Real>& labels,
                            const SoftmaxLayer<Real>& layer) override {
    return layer_.get().run(cores_, labels, layer, cores_.precision());
  }
  DeferredSum softmax_ranks(const SparseRows<Real>& labels, const SoftmaxLayer<Real>& layer,
                            std::size_t k, std::uint32_t* top) override {
    return ranks_.get().run(cores_, labels, layer, k, top);
  }
  DeferredSum sigmoid_cross_entropy(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                                    Real scale, Real* Z) override {
    return sigmoid_rows(labels, n, bias, true, scale, Z);
  }
  DeferredSum sigmoid_loss(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                           Real* Z) override {
    return sigmoid_rows(labels, n, bias, false, Real(1), Z);
  }

  void top_k(std::size_t rows, std::size_t n, const Real* Z, std::size_t k,
             std::uint32_t* top) override {
    HETSGD_CHECK_LE(std::size_t{1}, k);
    HETSGD_CHECK_LE(k, std::size_t{16});
    HETSGD_CHECK_LE(k, n);
    cores_.split(rows, 1, rows_worth_a_core(n), [&](Range range) {
      for (std::size_t r = range.begin; r < range.end; ++r) top_k_row(n, Z + r * n, k, top + r * k);
    });
  }

 private:
  // gradient: Z becomes scale * (softmax - T); else Z + bias.
  double softmax_rows(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                      bool gradient, Real scale, Real* Z) {
    return sum_of_rows(labels.rows, n, [&](std::size_t r) {
      return softmax_row(labels, r, n, bias, gradient, scale, Z + r * n);
    });
  }
  double sigmoid_rows(const SparseRows<Real>& labels, std::size_t n, const Real* bias,
                      bool gradient, Real scale, Real* Z) {
    return sum_of_rows(labels.rows, n, [&](std::size_t r) {
      return sigmoid_row(labels, r, n, bias, gradient, scale, Z + r * n);
    });
  }
  // The sum of the rows' losses, added in the order of the rows.
  template <class Loss>
  double sum_of_rows(std::size_t count, std::size_t n, const Loss& loss_of) {
    double* const loss = losses_.get().reserve(count);
    cores_.split(count, 1, rows_worth_a_core(n), [&](Range rows) {
      for (std::size_t r = rows.begin; r < rows.end; ++r) loss[r] = loss_of(r);
    });
    double total = 0;
    for (std::size_t r = 0; r < count; ++r) total += loss[r];
    return total;
  }

  const Backend& cores_;
  DeviceScratch<Scratch<double>> losses_;
  DeviceScratch<SoftmaxLayerKernel<Real>> layer_;
  DeviceScratch<SoftmaxRanksKernel<Real>> ranks_;
};

const RegisterKernels<Backend, BasicOutputLayerKernels, CpuOutputLayerKernels> output_layer_kernels;

}  // namespace

}  // namespace hetsgd::cpu
