// Dense layers, losses and rankings.
#include <numeric>

#include "linalg/devices.hpp"

namespace hetsgd::test {
namespace {

constexpr std::pair<std::size_t, std::size_t> kSoftmaxShapes[] = {
    {0, 5},    {1, 1},     {3, 7},    {17, 16},  {5, 983},
    {64, 129}, {200, 300}, {2, 5000}, {130, 40}, {40, 9000}};

template <class Real>
class Layers : public ::testing::Test {};
TYPED_TEST_SUITE(Layers, RealTypes);

TYPED_TEST(Layers, ReluForwardBackwardAndColumnSums) {
  using Real = TypeParam;
  for (const auto& [rows, n] : kSoftmaxShapes) {
    SCOPED_TRACE(::testing::Message() << rows << "x" << n);
    auto y0 = random_vector<Real>(rows * n, 1);
    if (rows > 1) y0[n] = std::numeric_limits<Real>::quiet_NaN();  // stays
    const auto bias = random_vector<Real>(n, 2), d0 = random_vector<Real>(rows * n, 3),
               b0 = random_vector<Real>(n, 4);
    const auto y = numbers(y0.size(), [&](auto i) {
      const double sum = double(y0[i]) + double(bias[i % n]);
      return sum < 0 ? 0 : sum;
    });
    const auto d = numbers(y0.size(), [&](auto i) { return y[i] <= 0 ? Real(0) : d0[i]; });
    auto sums = widen(b0);
    for (std::size_t i = 0; i < d0.size(); ++i) sums[i % n] += 0.5 * double(d0[i]);
    auto more_sums = sums;
    for (std::size_t i = 0; i < d.size(); ++i) more_sums[i % n] -= 0.3 * d[i];
    on_devices<Real>([&](auto& side) {
      auto& device = side.device;
      auto Y = side.put(y0), D = side.put(d0), E = side.put(d0), b = side.put(b0),
           a = side.put(bias);
      device.bias_relu(rows, n, a.data(), Y.data());
      side.expect(Y, y, "Y");
      device.column_sums(rows, n, Real(0.5), D.data(), b.data());
      side.expect(b, sums, "b");
      device.apply(rows * n, rule::ReluGradient<Real>(), Y.data(), D.data());
      side.expect_exactly(D, std::vector<Real>(d.begin(), d.end()), "D");
      device.relu_gradient_sums(rows, n, Real(-0.3), Y.data(), E.data(), b.data());
      side.expect_exactly(E, std::vector<Real>(d.begin(), d.end()), "D in one pass");
      side.expect(b, more_sums, "b in one pass");
    });
  }
}

// Compared with separate products and rules, the default of BasicDevice for devices without fused
// ones.
TYPED_TEST(Layers, DenseLayersHaveTheBitsOfTheirParts) {
  using Real = TypeParam;
  struct Shape {
    std::size_t rows, n, k;
  };
  const Shape shapes[] = {{0, 5, 3},      {1, 1, 1},     {3, 7, 0},     {33, 40, 300},
                          {300, 100, 17}, {17, 13, 513}, {65, 400, 429}};
  for (const Shape& s : shapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << ' ' << s.n << ' ' << s.k);
    auto x = random_vector<Real>(s.rows * s.k, 1);
    const auto w = random_vector<Real>(s.n * s.k, 2), bias = random_vector<Real>(s.n, 3);
    if (!x.empty()) x.front() = std::numeric_limits<Real>::quiet_NaN();
    on_devices<Real>([&](auto& side) {
      const auto X = side.put(x), W = side.put(w), a = side.put(bias);
      const auto calculate = [&](auto there, auto back) {
        Side<Real> own{side.device};
        auto Y = own.room(s.rows * s.n), dY = own.put(std::vector<Real>(s.rows * s.n, Real(7))),
             b = own.put(std::vector<Real>(s.n, Real(3)));
        there(s.rows, s.n, s.k, X.data(), W.data(), a.data(), Y.data());
        back(s.rows, s.n, s.k, X.data(), W.data(), Y.data(), dY.data(), Real(-0.3), b.data());
        for (const auto* each : {&Y, &dY, &b}) own.take(*each);
        return own.results;
      };
      auto& device = side.device;
      EXPECT_TRUE(same_bits(
          calculate([&](auto... of) { device.dense_relu(of...); },
                    [&](auto... of) { device.dense_relu_backward(of...); }),
          calculate([&](auto... of) { device.BasicDevice<Real>::dense_relu(of...); },
                    [&](auto... of) { device.BasicDevice<Real>::dense_relu_backward(of...); })));
    });
  }
}

TYPED_TEST(Layers, SoftmaxCrossEntropyMatchesTheDefinition) {
  using Real = TypeParam;
  for (const auto& [rows, n] : kSoftmaxShapes) {
    SCOPED_TRACE(::testing::Message() << rows << "x" << n);
    const RandomSparse labels(rows, n, 4, 5);
    const auto bias = random_vector<Real>(n, 7);
    for (const double spread : {1.0, 60.0}) {
      const auto z0 = random_vector<Real>(rows * n, 6, -spread, spread);
      for (const bool with_bias : {true, false}) {
        const auto z = numbers(z0.size(), [&](auto i) {
          return double(z0[i]) + (with_bias ? double(bias[i % n]) : 0);
        });
        const auto expected = softmax_reference(rows, n, z, labels.dense(false), 0.25);
        on_devices<Real>([&](auto& side) {
          auto& kernels = output_kernels(side.device);
          const auto Y = side.stage(labels, false);
          const auto b = side.put(bias);
          const Real* const of_bias = with_bias ? b.data() : nullptr;
          auto Z = side.put(z0);
          side.expect(kernels.softmax_loss(Y, n, of_bias, Z.data()), expected.loss,
                      kTolerance<Real>, "loss");
          side.expect(Z, z, "logits");
          Z = side.put(z0);
          side.expect(kernels.softmax_cross_entropy(Y, n, of_bias, Real(0.25), Z.data()),
                      expected.loss, kTolerance<Real>, "loss beside the gradient");
          side.expect(Z, expected.gradient, "gradient");
        });
      }
    }
  }
}

TYPED_TEST(Layers, SoftmaxIsSafeForHugeLogitsAndShowsNaN) {
  using Real = TypeParam;
  for (const std::size_t n : {50UL, 5000UL}) {
    const RandomSparse labels(6, n, 2, 9);
    for (const std::size_t at : {std::size_t{0}, n * 2 / 5, n - 1}) {
      for (const double value : std::vector<double>{-1e30, NAN, INFINITY}) {
        std::vector<Real> z(6 * n, Real(value < 0 ? 1e30 : 0));
        for (std::size_t r = 0; r < 6; ++r) z[r * n + at] = static_cast<Real>(value);
        on_devices<Real>([&](auto& side) {
          const auto Y = side.stage(labels, false);
          auto Z = side.put(z), G = side.put(z);
          const double loss = output_kernels(side.device).softmax_loss(Y, n, nullptr, Z.data());
          const double other =
              output_kernels(side.device).softmax_cross_entropy(Y, n, nullptr, Real(1), G.data());
          EXPECT_EQ(std::isfinite(loss), value < 0) << at;
          EXPECT_EQ(std::isnan(other), !(value < 0)) << at;
        });
      }
    }
  }
}

TYPED_TEST(Layers, SigmoidCrossEntropyMatchesTheDefinitionAndNeverOverflows) {
  using Real = TypeParam;
  for (const auto& [rows, n] :
       {std::pair<std::size_t, std::size_t>{400, 1}, {400, 7}, {400, 90}, {0, 40}, {40, 9000}}) {
    SCOPED_TRACE(::testing::Message() << rows << "x" << n);
    const RandomSparse labels(rows, n, 2, 10);
    const auto positive = labels.dense(false);
    const auto z0 = random_vector<Real>(rows * n, 11, -40, 40),
               bias = random_vector<Real>(n, 12, 0, 1);
    const auto z = numbers(z0.size(), [&](auto i) { return double(z0[i]) + double(bias[i % n]); });
    const auto gradient =
        numbers(z.size(), [&](auto i) { return 0.1 * (1 / (1 + std::exp(-z[i])) - positive[i]); });
    double expected = 0;
    for (std::size_t i = 0; i < z.size(); ++i) {
      expected += std::log1p(std::exp(positive[i] > 0 ? -z[i] : z[i]));
    }
    on_devices<Real>([&](auto& side) {
      auto& kernels = output_kernels(side.device);
      const auto Y = side.stage(labels, false);
      const auto b = side.put(bias);
      auto Z = side.put(z0);
      side.expect(kernels.sigmoid_loss(Y, n, b.data(), Z.data()), expected, kTolerance<Real>,
                  "loss");
      side.expect(Z, z, "logits");
      Z = side.put(z0);
      side.expect(kernels.sigmoid_cross_entropy(Y, n, b.data(), Real(0.1), Z.data()), expected,
                  kTolerance<Real>, "loss beside the gradient");
      side.expect(Z, gradient, "gradient");
      if (rows == 0) return;
      std::vector<Real> huge(rows * n, Real(-1e30));
      Z = side.put(huge);
      EXPECT_TRUE(std::isfinite(double{kernels.sigmoid_loss(Y, n, nullptr, Z.data())}));
      huge[3] = std::numeric_limits<Real>::quiet_NaN();
      Z = side.put(huge);
      EXPECT_TRUE(std::isnan(double{kernels.sigmoid_loss(Y, n, nullptr, Z.data())}));
    });
  }
}

TYPED_TEST(Layers, TopKSortsByScoreThenLabelAndPutsNaNLast) {
  using Real = TypeParam;
  std::vector<std::pair<std::size_t, std::size_t>> shapes(std::begin(kSoftmaxShapes),
                                                          std::end(kSoftmaxShapes));
  shapes.insert(shapes.end(), {{30, 17}, {3, 16'385}, {3, 60'000}});
  for (const auto& [rows, n] : shapes) {
    auto z = random_vector<Real>(rows * n, 12);
    for (Real& each : z) each = std::round(each * 20);  // many ties
    for (std::size_t i = 0; i < z.size(); i += 11) z[i] = std::numeric_limits<Real>::quiet_NaN();
    for (std::size_t i = 5; i < z.size(); i += 23) z[i] = Real(i % 2 ? INFINITY : -INFINITY);
    std::vector<std::vector<std::uint32_t>> order(rows, std::vector<std::uint32_t>(n));
    for (std::size_t r = 0; r < rows; ++r) {
      const auto key = [&](std::uint32_t l) {
        const Real x = z[r * n + l];
        return std::pair(!std::isnan(x), std::isnan(x) ? Real(0) : x);
      };
      std::iota(order[r].begin(), order[r].end(), 0U);
      std::ranges::stable_sort(order[r], [&](auto a, auto b) { return key(a) > key(b); });
    }
    on_devices<Real>([&](auto& side) {
      const auto Z = side.put(z);
      for (const std::size_t most : {1UL, 3UL, 5UL, 16UL}) {
        const std::size_t k = std::min(most, n);
        std::vector<std::uint32_t> top(rows * k);
        output_kernels(side.device).top_k(rows, n, Z.data(), k, top.data());
        for (std::size_t r = 0; r < rows; ++r) {
          ASSERT_TRUE(
              std::equal(order[r].begin(), order[r].begin() + long(k), top.begin() + long(r * k)))
              << rows << "x" << n << ", k " << k;
        }
      }
    });
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
