// Limits of measuring the output layer block of labels by block. softmax_layer_test.cpp holds the
// losses and rankings against those of all scores.
#include <sys/resource.h>

#include "linalg/softmax_problem.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class SoftmaxRanks : public ::testing::Test {
 protected:
  using Ranked = typename LayerProblem<Real>::Ranked;

  static Ranked rank(const LayerProblem<Real>& problem, std::size_t k, int cores = 1) {
    const auto device = make_cpu_device<Real>(cores);
    Side<Real> side{*device};
    return problem.rank(side, k);
  }
};
TYPED_TEST_SUITE(SoftmaxRanks, RealTypes);

TYPED_TEST(SoftmaxRanks, HugeScoresAreSafeAndNaNShows) {
  using Real = TypeParam;
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  const Real infinity = std::numeric_limits<Real>::infinity();
  const LayerProblem<Real> whole({9, 4, 2100});
  const auto check = [&](const LayerProblem<Real>& problem, bool finite) {
    const auto found = this->rank(problem, 5);
    EXPECT_EQ(std::isfinite(found.loss), finite);
    EXPECT_EQ(std::isnan(found.loss), !finite);
    EXPECT_EQ(found.top, problem.rank_all_at_once(5).top);
  };
  auto good = whole;
  good.b[0] = Real(-1e30);
  good.b[2000] = Real(1e30);
  check(good, true);
  // A block without any finite score is ignored.
  auto without = whole;
  std::fill_n(without.b.begin(), 1024, -infinity);
  EXPECT_EQ(this->rank(without, 5).top, without.rank_all_at_once(5).top);
  for (const std::size_t at : {0UL, 20UL, 1500UL, 2099UL}) {
    for (const Real bad : {nan, infinity}) {
      auto broken = whole;
      broken.b[at] = bad;
      check(broken, false);
    }
  }
  auto lost = whole;
  std::ranges::fill(lost.b, nan);
  check(lost, false);
}

TYPED_TEST(SoftmaxRanks, TheBestOfNoOrTooManyLabelsAreABrokenPromise) {
  for (const std::size_t k : {0UL, 17UL}) {
    EXPECT_THROW(this->rank(LayerProblem<TypeParam>({2, 3, 100}), k), CheckFailure);
  }
  EXPECT_THROW(this->rank(LayerProblem<TypeParam>({2, 3, 4}), 5), CheckFailure);
}

// 200 x 670,091 scores are 536 MB.
TEST(SoftmaxRanksMemory, ScoresAreNeverAllInMemory) {
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const LayerProblem<float> problem({200, 1, 670'091});
  const auto device = make_cpu_device<float>(1);
  Side<float> side{*device};
  const auto before = peak_kib();
  EXPECT_TRUE(std::isfinite(problem.rank(side, 5).loss));
  EXPECT_LT(peak_kib() - before, 100 * 1024);
}

}  // namespace
}  // namespace hetsgd::test
