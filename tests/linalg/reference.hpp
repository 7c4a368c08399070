// Random operands and naive double-precision kernels, with which the fast kernels are compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/random.hpp"
#include "linalg/device.hpp"
#include "linalg/output_layer_kernels.hpp"
#include "linalg/sparse_kernels.hpp"

namespace hetsgd::test {

template <class Real>
BasicSparseKernels<Real>& sparse_kernels(BasicDevice<Real>& device) {
  return kernels<BasicSparseKernels<Real>>(device);
}
template <class Real>
BasicOutputLayerKernels<Real>& output_kernels(BasicDevice<Real>& device) {
  return kernels<BasicOutputLayerKernels<Real>>(device);
}

// Every kernel is tested in both precisions, on one core and on three (more than the machine may
// have).
using RealTypes = ::testing::Types<float, double>;
inline constexpr int kCoreCounts[] = {1, 3};

template <class Real>
constexpr double kTolerance = sizeof(Real) == 4 ? 2e-5 : 1e-12;

template <class Real>
std::vector<Real> random_vector(std::size_t n, std::uint64_t seed, double low = -1,
                                double high = 1) {
  RandomStream random(seed, Purpose::test, 77);
  std::vector<Real> v(n);
  for (Real& x : v) x = static_cast<Real>(random.uniform(low, high));
  return v;
}

// |actual - expected| <= tolerance * max(1, largest |expected|), and NaN exactly where NaN is
// expected.
template <class Real>
void expect_close(const std::vector<Real>& actual, const std::vector<double>& expected,
                  double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double scale = 1;
  for (const double e : expected) scale = std::isfinite(e) ? std::max(scale, std::abs(e)) : scale;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto a = static_cast<double>(actual[i]);
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(a)) << what << "[" << i << "] = " << a;
    } else {
      ASSERT_NEAR(a, expected[i], tolerance * scale) << what << "[" << i << "]";
    }
  }
}

template <class Real>
std::vector<double> widen(const std::vector<Real>& v) {
  return {v.begin(), v.end()};
}

// A CSR matrix with empty rows among the others; the view picks `rows` of its rows in random order.
struct RandomSparse {
  RandomSparse(std::size_t rows, std::size_t columns, std::size_t per_row, std::uint64_t seed) {
    RandomStream random(seed, Purpose::test, 78);
    columns_ = columns;
    const std::size_t stored = rows + 3;
    for (std::size_t r = 0; r < stored; ++r) {
      const std::size_t count = r % 4 == 1 ? 0 : std::min(columns, per_row);
      std::vector<std::uint32_t> chosen;
      while (chosen.size() < count) {
        const auto c = static_cast<std::uint32_t>(random.below(columns));
        if (std::find(chosen.begin(), chosen.end(), c) == chosen.end()) chosen.push_back(c);
      }
      std::sort(chosen.begin(), chosen.end());
      index.insert(index.end(), chosen.begin(), chosen.end());
      begin.push_back(index.size());
    }
    for (std::size_t i = 0; i < index.size(); ++i) {
      value.push_back(static_cast<float>(random.uniform(-1, 1)));
    }
    for (std::size_t i = 0; i < rows; ++i) {
      row.push_back(static_cast<std::uint32_t>(random.below(stored)));
    }
  }

  template <class Real>
  SparseRows<Real> view(bool with_values) const {
    return {row.size(),   columns_,     row.data(),
            begin.data(), index.data(), with_values ? value.data() : nullptr};
  }

  // f(row, column, value) of every nonzero of the view.
  template <class Function>
  void each(bool with_values, const Function& f) const {
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (std::uint64_t k = begin[row[i]]; k < begin[row[i] + 1]; ++k) {
        f(i, index[k], with_values ? static_cast<double>(value[k]) : 1.0);
      }
    }
  }
  // The view as a dense matrix [rows x columns].
  std::vector<double> dense(bool with_values) const {
    std::vector<double> d(row.size() * columns_, 0.0);
    each(with_values, [&](std::size_t i, std::size_t c, double x) { d[i * columns_ + c] = x; });
    return d;
  }

  std::vector<std::uint64_t> begin{0};
  std::vector<std::uint32_t> index, row;
  std::vector<float> value;
  std::size_t columns_;
};

struct SoftmaxReference {
  double loss = 0;
  std::vector<double> gradient;  // scale * (softmax - T)
};

// `Y` is the dense 0/1 label matrix [rows x n], Z the logits with their bias.
inline SoftmaxReference softmax_reference(std::size_t rows, std::size_t n,
                                          const std::vector<double>& Z,
                                          const std::vector<double>& Y, double scale) {
  SoftmaxReference result;
  result.gradient.assign(rows * n, 0.0);
  for (std::size_t r = 0; r < rows; ++r) {
    const double* z = Z.data() + r * n;
    const double* y = Y.data() + r * n;
    double labels = 0, largest = -std::numeric_limits<double>::infinity(), sum = 0, true_logit = 0;
    for (std::size_t j = 0; j < n; ++j) labels += y[j];
    if (labels == 0) continue;
    for (std::size_t j = 0; j < n; ++j) largest = std::max(largest, z[j]);
    for (std::size_t j = 0; j < n; ++j) sum += std::exp(z[j] - largest);
    for (std::size_t j = 0; j < n; ++j) {
      if (y[j] > 0) true_logit += z[j];
      result.gradient[r * n + j] = scale * (std::exp(z[j] - largest) / sum - y[j] / labels);
    }
    result.loss += largest + std::log(sum) - true_logit / labels;
  }
  return result;
}

}  // namespace hetsgd::test
