// Measuring the output layer block of labels by block, against the products, losses and rankings
// that need all scores.
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

// One block of labels, which 128 are on any machine in either precision, gives the same bits. The
// scores of many blocks have them too, so the ranking is the same to the last tie.
TYPED_TEST(SoftmaxRanks, AreThoseOfAllScores) {
  struct Case {
    LayerShape shape;
    std::size_t k;
  };
  for (const auto& [s, k] : {Case{{0, 8, 20}, 5},
                             {{1, 1, 1}, 1},
                             {{5, 7, 9}, 3},
                             {{16, 128, 33}, 5},
                             {{17, 33, 100}, 16},
                             {{70, 600, 128}, 5},
                             {{1, 5, 1025}, 16},
                             {{33, 7, 4097}, 5},
                             {{40, 300, 2500}, 3}}) {
    for (const double spread : {1.0, 40.0}) {
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.inputs << "x" << s.outputs);
      const LayerProblem<TypeParam> problem(s, spread);
      const auto expected = problem.rank_all_at_once(k), actual = this->rank(problem, k),
                 shared = this->rank(problem, k, 3);
      if (s.outputs <= 128) {
        EXPECT_EQ(actual.loss, expected.loss);
      } else {
        EXPECT_NEAR(actual.loss, expected.loss,
                    kTolerance<TypeParam> * std::max(1.0, expected.loss));
      }
      EXPECT_EQ(actual.top, expected.top);
      EXPECT_EQ(shared.loss, actual.loss);
      EXPECT_EQ(shared.top, actual.top);
    }
  }
}

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
