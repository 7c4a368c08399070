#include <gtest/gtest.h>

#include <cmath>

#include "linalg/cpu/simd.hpp"
#include "linalg/reference.hpp"

namespace hetsgd::cpu {
namespace {

template <class Real>
class Exponential : public ::testing::Test {};
TYPED_TEST_SUITE(Exponential, hetsgd::test::RealTypes);

TYPED_TEST(Exponential, IsWithinTwoUnitsInTheLastPlaceDownToItsFloor) {
  using Real = TypeParam;
  const double limit = 2 * static_cast<double>(std::numeric_limits<Real>::epsilon());
  constexpr int kSteps = 400'000;
  double worst = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const Real x = kExpFloor<Real> * static_cast<Real>(i) / kSteps;
    const double expected = std::exp(static_cast<double>(x));
    worst = std::max(
        worst, std::abs(static_cast<double>(exp_nonpositive(broadcast(x))[0]) / expected - 1));
  }
  EXPECT_LE(worst, limit);
}

TYPED_TEST(Exponential, SpecialValues) {
  using Real = TypeParam;
  const Real infinity = std::numeric_limits<Real>::infinity();
  EXPECT_EQ(exp_nonpositive(broadcast(Real(0)))[0], Real(1));
  EXPECT_EQ(exp_nonpositive(broadcast(-infinity))[0], Real(0));
  EXPECT_EQ(exp_nonpositive(broadcast(Real(kExpFloor<Real> * 1.01)))[0], Real(0));
  EXPECT_EQ(exp_nonpositive(broadcast(-std::numeric_limits<Real>::max()))[0], Real(0));
  EXPECT_TRUE(std::isnan(exp_nonpositive(broadcast(std::numeric_limits<Real>::quiet_NaN()))[0]));
}

}  // namespace
}  // namespace hetsgd::cpu
