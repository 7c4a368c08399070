#include "linalg/cpu/layers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "linalg/cpu/best.hpp"
#include "linalg/cpu/simd.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kLeast = std::size_t{1} << 14;  // numbers that are worth a second core

std::size_t rows_worth_a_core(std::size_t n) { return kLeast / std::max<std::size_t>(n, 1) + 1; }

// z <- z + bias in place; the largest entry (NaN entries are passed over).
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

// Sum of exp(z - largest); keep: z becomes those exponentials. Partial sums of 64 vectors go on in
// double.
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
    // Most strides hold nothing above the k-th best: one comparison of their maximum tells. A NaN
    // k-th best is beaten by anything, so then every stride is read.
    const Vec<Real> a = vector_max<Real>(load(z + j), load(z + j + kWidth));
    const Vec<Real> b = vector_max<Real>(load(z + j + 2 * kWidth), load(z + j + 3 * kWidth));
    const Vec<Real> bar = broadcast(best.score[k - 1]);
    // A NaN among the operands of a maximum may have hidden the other one: such a stride is read
    // too.
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

}  // namespace

template <class Real>
void bias_relu(const Cores& cores, std::size_t rows, std::size_t n, const Real* bias, Real* Y) {
  cores.split(rows, 1, rows_worth_a_core(n), [&](Range range) {
    for (std::size_t r = range.begin; r < range.end; ++r) {
      Real* y = Y + r * n;
      for (std::size_t j = 0; j < n; ++j) {
        const Real x = y[j] + bias[j];
        y[j] = x < Real(0) ? Real(0) : x;  // NaN stays NaN
      }
    }
  });
}

template <class Real>
void relu_backward(const Cores& cores, std::size_t rows, std::size_t n, const Real* Y, Real* D) {
  cores.split(rows * n, 16, kLeast, [&](Range range) {
    for (std::size_t i = range.begin; i < range.end; ++i) D[i] = Y[i] <= Real(0) ? Real(0) : D[i];
  });
}

template <class Real>
void column_sums(const Cores& cores, std::size_t rows, std::size_t n, Real alpha, const Real* D,
                 Real* b) {
  constexpr std::size_t kChunk = 1024;  // columns whose sums stay in L1
  cores.split(n, 16, kLeast / (rows + 1) + 16, [&](Range columns) {
    Real sum[kChunk];
    for (std::size_t j0 = columns.begin; j0 < columns.end; j0 += kChunk) {
      const std::size_t width = std::min(kChunk, columns.end - j0);
      std::fill_n(sum, width, Real(0));
      for (std::size_t r = 0; r < rows; ++r) {
        const Real* d = D + r * n + j0;
        for (std::size_t j = 0; j < width; ++j) sum[j] += d[j];
      }
      for (std::size_t j = 0; j < width; ++j) b[j0 + j] += alpha * sum[j];
    }
  });
}

template <class Real>
double softmax_rows(const Cores& cores, const SparseRows<Real>& labels, std::size_t n,
                    const Real* bias, bool gradient, Real scale, Real* Z, Scratch<double>& losses) {
  double* loss = losses.reserve(labels.rows);
  cores.split(labels.rows, 1, rows_worth_a_core(n), [&](Range rows) {
    for (std::size_t r = rows.begin; r < rows.end; ++r) {
      loss[r] = softmax_row(labels, r, n, bias, gradient, scale, Z + r * n);
    }
  });
  double total = 0;
  for (std::size_t r = 0; r < labels.rows; ++r) total += loss[r];
  return total;
}

template <class Real>
double sigmoid_rows(const SparseRows<Real>& labels, const Real* bias, bool gradient, Real scale,
                    Real* Z) {
  double total = 0;
  for (std::size_t r = 0; r < labels.rows; ++r) {
    const std::size_t source = labels.source_row(r);
    const bool positive = labels.begin[source] < labels.begin[source + 1];
    if (bias) Z[r] += *bias;
    const auto z = static_cast<double>(Z[r]);
    // log(1 + e^-z) = max(-z, 0) + log(1 + e^-|z|): nothing overflows. (A ternary, as std::max
    // drops NaN.)
    const double margin = positive ? -z : z;
    const double small = std::exp(-std::abs(z));
    total += (margin < 0 ? 0.0 : margin) + std::log1p(small);
    if (!gradient) continue;
    const double sigmoid = z < 0 ? small / (1 + small) : 1 / (1 + small);
    Z[r] = scale * static_cast<Real>(positive ? sigmoid - 1 : sigmoid);
  }
  return total;
}

template <class Real>
void top_k(const Cores& cores, std::size_t rows, std::size_t n, const Real* Z, std::size_t k,
           std::uint32_t* top) {
  HETSGD_CHECK_LE(std::size_t{1}, k);
  HETSGD_CHECK_LE(k, std::size_t{16});
  HETSGD_CHECK_LE(k, n);
  cores.split(rows, 1, rows_worth_a_core(n), [&](Range range) {
    for (std::size_t r = range.begin; r < range.end; ++r) top_k_row(n, Z + r * n, k, top + r * k);
  });
}

#define HETSGD_INSTANTIATE(Real)                                                                 \
  template void bias_relu<Real>(const Cores&, std::size_t, std::size_t, const Real*, Real*);     \
  template void relu_backward<Real>(const Cores&, std::size_t, std::size_t, const Real*, Real*); \
  template void column_sums<Real>(const Cores&, std::size_t, std::size_t, Real, const Real*,     \
                                  Real*);                                                        \
  template double softmax_rows<Real>(const Cores&, const SparseRows<Real>&, std::size_t,         \
                                     const Real*, bool, Real, Real*, Scratch<double>&);          \
  template double sigmoid_rows<Real>(const SparseRows<Real>&, const Real*, bool, Real, Real*);   \
  template void top_k<Real>(const Cores&, std::size_t, std::size_t, const Real*, std::size_t,    \
                            std::uint32_t*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd::cpu
