#include <gtest/gtest.h>

#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class Updates : public ::testing::Test {};
TYPED_TEST_SUITE(Updates, RealTypes);

// Odd sizes around vector lengths and around the block of apply_norm, and one that several
// cores share.
const std::size_t kUpdateSizes[] = {0, 1, 7, 33, 1000, 1024, 1025, 200'003};

// Operands of an update: v is a mean of squares, so not negative.
template <class Real>
struct Operands {
  explicit Operands(std::size_t n)
      : g(random_vector<Real>(n, 1)),
        m(random_vector<Real>(n, 2)),
        v(random_vector<Real>(n, 3, 0.01, 1)),
        w(random_vector<Real>(n, 4)) {}
  std::vector<Real> g, m, v, w;
};

template <class Real>
rule::Moments<Real> some_moments() {
  return {.gradient = Real(0.5),
          .decay = Real(0.125),
          .beta1 = Real(0.75),
          .beta2 = Real(0.875),
          .fresh1 = Real(0.25),
          .fresh2 = Real(0.125),
          .first = Real(1.5),
          .second = Real(2),
          .epsilon = Real(0.0625),
          .shrink = Real(0.25)};
}

// The definition, in double.
struct MomentReference {
  std::vector<double> m, v, r, w;
  double squares = 0;
};
template <class Real>
MomentReference moment_reference(const Operands<Real>& x, double step) {
  MomentReference result;
  for (std::size_t i = 0; i < x.g.size(); ++i) {
    const double w = x.w[i], u = 0.5 * double(x.g[i]) + 0.125 * w;
    const double m = 0.75 * double(x.m[i]) + 0.25 * u;
    const double v = 0.875 * double(x.v[i]) + 0.125 * u * u;
    const double r = 1.5 * m / (std::sqrt(2 * v) + 0.0625) + 0.25 * w;
    result.m.push_back(m);
    result.v.push_back(v);
    result.r.push_back(r);
    result.w.push_back(w - step * r);
    result.squares += r * r;
  }
  return result;
}

TYPED_TEST(Updates, MomentumStepIsItsDefinition) {
  using Real = TypeParam;
  const rule::MomentumStep<Real> step{.gradient = Real(0.5),
                                      .decay = Real(0.125),
                                      .momentum = Real(0.75),
                                      .velocity = Real(0.25),
                                      .direct = Real(0.375)};
  for (const int cores : kCoreCounts) {
    for (const std::size_t n : kUpdateSizes) {
      Operands<Real> x(n);
      std::vector<double> velocity(n), expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        const double u = 0.5 * double(x.g[i]) + 0.125 * double(x.w[i]);
        velocity[i] = 0.75 * double(x.v[i]) + u;
        expected[i] = double(x.w[i]) - 0.25 * velocity[i] - 0.375 * u;
      }
      const auto g = x.g;
      make_cpu_device<Real>(cores)->apply(n, step, x.g.data(), x.v.data(), x.w.data());
      expect_close(x.v, velocity, kTolerance<Real>, "v");
      expect_close(x.w, expected, kTolerance<Real>, "w");
      EXPECT_EQ(x.g, g);
    }
  }
}

TYPED_TEST(Updates, MomentStepIsItsDefinition) {
  using Real = TypeParam;
  for (const int cores : kCoreCounts) {
    for (const std::size_t n : kUpdateSizes) {
      Operands<Real> x(n);
      const MomentReference expected = moment_reference(x, 0.5);
      const auto g = x.g;
      const rule::MomentStep<Real> step{some_moments<Real>(), Real(0.5)};
      make_cpu_device<Real>(cores)->apply(n, step, x.g.data(), x.m.data(), x.v.data(), x.w.data());
      expect_close(x.m, expected.m, kTolerance<Real>, "m");
      expect_close(x.v, expected.v, kTolerance<Real>, "v");
      expect_close(x.w, expected.w, kTolerance<Real>, "w");
      EXPECT_EQ(x.g, g);
    }
  }
}

TYPED_TEST(Updates, MomentUpdateAndApplyAreTheirDefinition) {
  using Real = TypeParam;
  for (const std::size_t n : kUpdateSizes) {
    double squares[2] = {};
    for (std::size_t c = 0; c < 2; ++c) {
      Operands<Real> x(n);
      const MomentReference expected = moment_reference(x, 0.5);
      const auto w = x.w;
      const auto device = make_cpu_device<Real>(kCoreCounts[c]);
      squares[c] = device->apply_norm(n, rule::MomentUpdate<Real>{some_moments<Real>()}, x.g.data(),
                                      x.w.data(), x.m.data(), x.v.data());
      EXPECT_EQ(x.w, w);
      expect_close(x.m, expected.m, kTolerance<Real>, "m");
      expect_close(x.v, expected.v, kTolerance<Real>, "v");
      EXPECT_NEAR(squares[c], expected.squares, 1e-6 * expected.squares);
      device->apply(n, rule::MomentApply<Real>{some_moments<Real>(), Real(0.5)}, x.m.data(),
                    x.v.data(), x.w.data());
      expect_close(x.w, expected.w, kTolerance<Real>, "w");
    }
    EXPECT_EQ(squares[0], squares[1]) << "the same bits for any number of cores";
  }
}

TYPED_TEST(Updates, NotANumberStaysWhereItIs) {
  using Real = TypeParam;
  Operands<Real> x(100);
  x.g[41] = std::numeric_limits<Real>::quiet_NaN();
  const auto device = make_cpu_device<Real>(1);
  device->apply(100, rule::MomentStep<Real>{some_moments<Real>(), Real(0.5)}, x.g.data(),
                x.m.data(), x.v.data(), x.w.data());
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(std::isnan(x.w[i]), i == 41) << i;
  const double squares = device->apply_norm(100, rule::MomentUpdate<Real>{some_moments<Real>()},
                                            x.g.data(), x.w.data(), x.m.data(), x.v.data());
  EXPECT_TRUE(std::isnan(squares));
}

}  // namespace
}  // namespace hetsgd::test
