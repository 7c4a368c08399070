#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

constexpr std::pair<std::size_t, std::size_t> kSoftmaxShapes[] = {
    {0, 5}, {1, 1}, {3, 7}, {17, 16}, {5, 983}, {64, 129}, {200, 300}, {2, 5000}};

template <class Real>
class Layers : public ::testing::Test {};
TYPED_TEST_SUITE(Layers, RealTypes);

TYPED_TEST(Layers, ReluForwardBackwardAndColumnSums) {
  using Real = TypeParam;
  for (const int cores : kCoreCounts) {
    const auto device = make_cpu_device<Real>(cores);
    for (const auto& [rows, n] : kSoftmaxShapes) {
      const auto Y0 = random_vector<Real>(rows * n, 1), bias = random_vector<Real>(n, 2),
                 D0 = random_vector<Real>(rows * n, 3), b0 = random_vector<Real>(n, 4);
      auto Y = Y0, D = D0, b = b0;
      device->bias_relu(rows, n, bias.data(), Y.data());
      device->apply(rows * n, rule::ReluGradient<Real>(), Y.data(), D.data());
      device->column_sums(rows, n, Real(0.5), D0.data(), b.data());
      std::vector<double> y(rows * n), d(rows * n), sums = widen(b0);
      for (std::size_t i = 0; i < rows * n; ++i) {
        y[i] = std::max(double(Y0[i]) + double(bias[i % n]), 0.0);
        d[i] = Y[i] > 0 ? double(D0[i]) : 0;
        sums[i % n] += 0.5 * double(D0[i]);
      }
      expect_close(Y, y, kTolerance<Real>, "Y");
      expect_close(D, d, 0, "D");
      expect_close(b, sums, kTolerance<Real>, "b");
    }
  }
}

// Against the products and rules by themselves: what BasicDevice has for devices that do no better.
TYPED_TEST(Layers, DenseLayersHaveTheBitsOfTheirParts) {
  using Real = TypeParam;
  struct Shape {
    std::size_t rows, n, k;
  };
  const Shape shapes[] = {{0, 5, 3},      {1, 1, 1},     {3, 7, 0},     {33, 40, 300},
                          {300, 100, 17}, {17, 13, 513}, {65, 400, 429}};
  for (const Shape& s : shapes) {
    auto X = random_vector<Real>(s.rows * s.k, 1);
    const auto W = random_vector<Real>(s.n * s.k, 2), bias = random_vector<Real>(s.n, 3);
    if (!X.empty()) X.front() = std::numeric_limits<Real>::quiet_NaN();
    for (const int cores : kCoreCounts) {
      const auto device = make_cpu_device<Real>(cores);
      const auto bytes_of = [](const std::vector<Real>& values) {
        return std::string(reinterpret_cast<const char*>(values.data()),
                           values.size() * sizeof(Real));
      };
      std::vector<Real> Y(s.rows * s.n, Real(7)), Y_of_parts = Y, dY = Y, dY_of_parts = Y;
      std::vector<Real> b(s.n, Real(3)), b_of_parts = b;
      device->dense_relu(s.rows, s.n, s.k, X.data(), W.data(), bias.data(), Y.data());
      device->BasicDevice<Real>::dense_relu(s.rows, s.n, s.k, X.data(), W.data(), bias.data(),
                                            Y_of_parts.data());
      EXPECT_TRUE(bytes_of(Y) == bytes_of(Y_of_parts)) << s.rows << ' ' << s.n << ' ' << s.k;
      device->dense_relu_backward(s.rows, s.n, s.k, X.data(), W.data(), Y.data(), dY.data(),
                                  Real(-0.3), b.data());
      device->BasicDevice<Real>::dense_relu_backward(s.rows, s.n, s.k, X.data(), W.data(), Y.data(),
                                                     dY_of_parts.data(), Real(-0.3),
                                                     b_of_parts.data());
      EXPECT_TRUE(bytes_of(dY) == bytes_of(dY_of_parts)) << s.rows << ' ' << s.n << ' ' << s.k;
      EXPECT_TRUE(bytes_of(b) == bytes_of(b_of_parts)) << s.n;
    }
  }
}

TYPED_TEST(Layers, ReluKeepsNaN) {
  using Real = TypeParam;
  std::vector<Real> Y(40, Real(-1)), bias(40, Real(0));
  Y[5] = Y[39] = std::numeric_limits<Real>::quiet_NaN();
  make_cpu_device<Real>(1)->bias_relu(1, 40, bias.data(), Y.data());
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::isnan(Y[i]), i == 5 || i == 39);
    if (!std::isnan(Y[i])) {
      EXPECT_EQ(Y[i], Real(0));
    }
  }
}

TYPED_TEST(Layers, SoftmaxCrossEntropyMatchesTheDefinition) {
  using Real = TypeParam;
  for (const int cores : kCoreCounts) {
    const auto device = make_cpu_device<Real>(cores);
    for (const auto& [rows, n] : kSoftmaxShapes) {
      for (const double spread : {1.0, 60.0}) {
        const RandomSparse labels(rows, n, 4, 5);
        const auto Z0 = random_vector<Real>(rows * n, 6, -spread, spread),
                   bias = random_vector<Real>(n, 7);
        std::vector<double> z(rows * n);
        for (std::size_t i = 0; i < z.size(); ++i) z[i] = double(Z0[i]) + double(bias[i % n]);
        const auto expected = softmax_reference(rows, n, z, labels.dense(false), 0.25);
        auto Z = Z0;
        const double loss = output_kernels(*device).softmax_cross_entropy(
            labels.view<Real>(false), n, bias.data(), Real(0.25), Z.data());
        EXPECT_NEAR(loss, expected.loss, kTolerance<Real> * std::max(1.0, expected.loss));
        expect_close(Z, expected.gradient, kTolerance<Real>, "gradient");
        Z = Z0;
        const double only = output_kernels(*device).softmax_loss(labels.view<Real>(false), n,
                                                                 bias.data(), Z.data());
        EXPECT_NEAR(only, expected.loss, kTolerance<Real> * std::max(1.0, expected.loss));
        expect_close(Z, z, kTolerance<Real>, "logits");
      }
    }
  }
}

TYPED_TEST(Layers, SoftmaxIsSafeForHugeLogitsAndShowsNaN) {
  using Real = TypeParam;
  const auto device = make_cpu_device<Real>(1);
  const RandomSparse labels(1, 50, 2, 9);
  SparseRows<Real> rows = labels.view<Real>(false);
  const std::uint32_t labelled[] = {0};
  rows.row = labelled;
  std::vector<Real> Z(50, Real(1e30));
  Z[7] = Real(-1e30);
  EXPECT_TRUE(std::isfinite(output_kernels(*device).softmax_loss(rows, 50, nullptr, Z.data())));
  for (const std::size_t at : {0UL, 20UL, 49UL}) {
    for (const Real bad :
         {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
      std::vector<Real> broken(50, Real(0));
      broken[at] = bad;
      auto copy = broken;
      EXPECT_TRUE(
          std::isnan(output_kernels(*device).softmax_loss(rows, 50, nullptr, broken.data())))
          << at;
      EXPECT_TRUE(std::isnan(
          output_kernels(*device).softmax_cross_entropy(rows, 50, nullptr, Real(1), copy.data())))
          << at;
    }
  }
}

TYPED_TEST(Layers, SigmoidCrossEntropyMatchesTheDefinitionAndNeverOverflows) {
  using Real = TypeParam;
  for (const auto& [n, cores] : {std::pair<std::size_t, int>(1, 1), {1, 3}, {7, 1}, {90, 3}}) {
    SCOPED_TRACE(n);
    const auto device = make_cpu_device<Real>(cores);
    auto& kernels = output_kernels(*device);
    const RandomSparse labels(400, n, 2, 10);
    const auto Y = labels.view<Real>(false);
    const auto Z0 = random_vector<Real>(400 * n, 11, -40, 40);
    const auto bias = random_vector<Real>(n, 12, 0, 1);
    double expected = 0;
    std::vector<double> gradient(400 * n), logits(400 * n);
    for (std::size_t i = 0; i < 400 * n; ++i) {
      const std::size_t row = labels.row[i / n];
      const double z = double(Z0[i]) + double(bias[i % n]);
      const auto* const all = labels.index.data();
      const bool positive =
          std::binary_search(all + labels.begin[row], all + labels.begin[row + 1], i % n);
      logits[i] = z;
      expected += positive ? std::log1p(std::exp(-z)) : std::log1p(std::exp(z));
      gradient[i] = 0.1 * (1 / (1 + std::exp(-z)) - (positive ? 1 : 0));
    }
    auto Z = Z0;
    EXPECT_NEAR(kernels.sigmoid_loss(Y, n, bias.data(), Z.data()), expected,
                kTolerance<Real> * expected);
    expect_close(Z, logits, kTolerance<Real>, "logits");
    Z = Z0;
    EXPECT_NEAR(kernels.sigmoid_cross_entropy(Y, n, bias.data(), Real(0.1), Z.data()), expected,
                kTolerance<Real> * expected);
    expect_close(Z, gradient, kTolerance<Real>, "gradient");
    std::vector<Real> huge(400 * n, Real(-1e30));
    EXPECT_TRUE(std::isfinite(kernels.sigmoid_loss(Y, n, nullptr, huge.data())));
    huge[3] = std::numeric_limits<Real>::quiet_NaN();
    EXPECT_TRUE(std::isnan(kernels.sigmoid_loss(Y, n, nullptr, huge.data())));
  }
}

TYPED_TEST(Layers, TopKSortsByScoreThenLabelAndPutsNaNLast) {
  using Real = TypeParam;
  for (const int cores : kCoreCounts) {
    for (const auto& [rows, n] : kSoftmaxShapes) {
      auto Z = random_vector<Real>(rows * n, 12);
      for (Real& z : Z) z = std::round(z * 20);  // many ties
      for (std::size_t i = 0; i < Z.size(); i += 11) Z[i] = std::numeric_limits<Real>::quiet_NaN();
      for (std::size_t k : {1UL, 5UL, 16UL}) {
        k = std::min(k, n);
        std::vector<std::uint32_t> top(rows * k);
        output_kernels(*make_cpu_device<Real>(cores)).top_k(rows, n, Z.data(), k, top.data());
        for (std::size_t r = 0; r < rows; ++r) {
          std::vector<std::uint32_t> order(n);
          std::iota(order.begin(), order.end(), 0U);
          const auto key = [&](std::uint32_t l) {
            const Real z = Z[r * n + l];
            return std::isnan(z) ? -std::numeric_limits<double>::infinity() : double(z);
          };
          std::stable_sort(order.begin(), order.end(),
                           [&](auto a, auto b) { return key(a) > key(b); });
          order.resize(k);
          ASSERT_EQ(std::vector<std::uint32_t>(top.begin() + long(r * k),
                                               top.begin() + long((r + 1) * k)),
                    order);
        }
      }
    }
  }
}

TYPED_TEST(Layers, TopKOfNoOrTooManyLabelsIsABrokenPromise) {
  const auto device = make_cpu_device<TypeParam>(1);
  const std::vector<TypeParam> Z(100);
  std::uint32_t top[17];
  EXPECT_THROW(output_kernels(*device).top_k(1, 100, Z.data(), 0, top), CheckFailure);
  EXPECT_THROW(output_kernels(*device).top_k(1, 100, Z.data(), 17, top), CheckFailure);
  EXPECT_THROW(output_kernels(*device).top_k(1, 4, Z.data(), 5, top), CheckFailure);
}

}  // namespace
}  // namespace hetsgd::test
