#include <gtest/gtest.h>

#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class Vectors : public ::testing::Test {};
TYPED_TEST_SUITE(Vectors, RealTypes);

// Odd sizes around vector lengths, and one that several cores share.
const std::size_t kSizes[] = {0, 1, 7, 16, 33, 1000, 200'003};

TYPED_TEST(Vectors, ElementwiseKernelsMatchTheirDefinition) {
  using Real = TypeParam;
  for (const int cores : kCoreCounts) {
    const auto device = make_cpu_device<Real>(cores);
    for (const std::size_t n : kSizes) {
      const auto x = random_vector<Real>(n, 1), y0 = random_vector<Real>(n, 2);
      std::vector<Real> y(n, Real(9));
      device->fill(n, Real(3), y.data());
      expect_close(y, std::vector<double>(n, 3.0), 0, "fill");
      device->copy(n, x.data(), y.data());
      EXPECT_EQ(y, x);
      for (const double b : {1.0, 0.25}) {
        y = y0;
        device->axpby(n, Real(-0.5), x.data(), Real(b), y.data());
        std::vector<double> expected(n);
        for (std::size_t i = 0; i < n; ++i) expected[i] = -0.5 * double(x[i]) + b * double(y0[i]);
        expect_close(y, expected, kTolerance<Real>, "axpby");
      }
    }
  }
}

TYPED_TEST(Vectors, AxpbyWithBetaZeroNeverReadsTheTarget) {
  using Real = TypeParam;
  const auto x = random_vector<Real>(37, 1);
  std::vector<Real> y(37, std::numeric_limits<Real>::quiet_NaN());
  make_cpu_device<Real>(1)->axpby(37, Real(1), x.data(), Real(0), y.data());
  EXPECT_EQ(y, x);
}

TYPED_TEST(Vectors, DotAndNormAccumulateInDoubleWithTheSameBitsForAnyCores) {
  using Real = TypeParam;
  for (const std::size_t n : kSizes) {
    const auto x = random_vector<Real>(n, 3), y = random_vector<Real>(n, 4);
    long double expected = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      expected += static_cast<long double>(x[i]) * static_cast<long double>(y[i]);
      squares += static_cast<long double>(x[i]) * static_cast<long double>(x[i]);
    }
    const double one = make_cpu_device<Real>(1)->dot(n, x.data(), y.data());
    EXPECT_NEAR(one, double(expected), 1e-13 * std::max(1.0, double(squares)));
    EXPECT_EQ(make_cpu_device<Real>(3)->dot(n, x.data(), y.data()), one);
    EXPECT_NEAR(make_cpu_device<Real>(3)->squared_norm(n, x.data()), double(squares),
                1e-13 * std::max(1.0, double(squares)));
  }
}

TYPED_TEST(Vectors, ProductsAndCombinationAreMadeInDoubleWithTheSameBitsForAnyCores) {
  using Real = TypeParam;
  for (const std::size_t n : kSizes) {
    const auto x = random_vector<Real>(n, 3), y = random_vector<Real>(n, 4);
    const auto device = make_cpu_device<Real>(1), shared = make_cpu_device<Real>(3);
    const Products one = device->products(n, x.data(), y.data());
    const double close = 1e-13 * std::max(1.0, one.xx);
    EXPECT_NEAR(one.xy, device->dot(n, x.data(), y.data()), close);
    EXPECT_NEAR(one.xx, device->squared_norm(n, x.data()), close);
    EXPECT_NEAR(one.yy, device->squared_norm(n, y.data()), close);
    const Products three = shared->products(n, x.data(), y.data());
    EXPECT_EQ(three.xy, one.xy);
    EXPECT_EQ(three.xx, one.xx);
    EXPECT_EQ(three.yy, one.yy);

    std::vector<Real> expected(n), z(n, std::numeric_limits<Real>::quiet_NaN()), in_place = y;
    for (std::size_t i = 0; i < n; ++i) {
      expected[i] = static_cast<Real>(std::fma(1.0 / 3, double(x[i]), -0.7 * double(y[i])));
    }
    const rule::Combine<Real> rule{1.0 / 3, -0.7};
    shared->apply(n, rule, x.data(), y.data(), z.data());
    device->apply(n, rule, x.data(), in_place.data(), in_place.data());
    expect_close(z, std::vector<double>(expected.begin(), expected.end()), kTolerance<Real>, "z");
    EXPECT_EQ(in_place, z);
  }
}

TYPED_TEST(Vectors, MomentumMergeIsLines11And12OfAlgorithm2) {
  using Real = TypeParam;
  for (const int cores : kCoreCounts) {
    for (const std::size_t n : kSizes) {
      const auto merged = random_vector<Real>(n, 5), w0 = random_vector<Real>(n, 6),
                 previous0 = random_vector<Real>(n, 7);
      auto w = w0, previous = previous0;
      make_cpu_device<Real>(cores)->apply(n, rule::MomentumMerge<Real>{Real(0.9)}, merged.data(),
                                          w.data(), previous.data());
      std::vector<double> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        expected[i] =
            double(merged[i]) + double(Real(0.9)) * (double(w0[i]) - double(previous0[i]));
      }
      expect_close(w, expected, kTolerance<Real>, "w");
      EXPECT_EQ(previous, w0);
    }
  }
}

TYPED_TEST(Vectors, RowKernelsTouchTheNamedRowsAlone) {
  using Real = TypeParam;
  const std::vector<std::uint32_t> rows{0, 3, 4, 9};
  for (const int cores : kCoreCounts) {
    for (const std::size_t n : {1UL, 17UL, 5000UL}) {
      const auto device = make_cpu_device<Real>(cores);
      const auto x = random_vector<Real>(10 * n, 8), y0 = random_vector<Real>(10 * n, 9);
      auto y = y0, z = y0;
      device->apply_rows(rows, n, rule::AddScaled<Real>{2}, x.data(), y.data());
      device->apply_rows(rows, n, rule::Fill<Real>{-1}, z.data());
      for (std::uint32_t r = 0; r < 10; ++r) {
        const bool named = std::find(rows.begin(), rows.end(), r) != rows.end();
        for (std::size_t i = r * n; i < (r + 1) * n; ++i) {
          ASSERT_NEAR(double(y[i]), double(y0[i]) + (named ? 2 * double(x[i]) : 0),
                      kTolerance<Real>);
          ASSERT_EQ(z[i], named ? Real(-1) : y0[i]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
