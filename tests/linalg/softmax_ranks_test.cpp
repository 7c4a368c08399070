// Measuring the output layer block of labels by block, against the products, losses and rankings
// that need all scores.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class SoftmaxRanks : public ::testing::Test {};
TYPED_TEST_SUITE(SoftmaxRanks, RealTypes);

struct RankShape {
  std::size_t rows, inputs, outputs, k;
};

template <class Real>
struct RankProblem {
  explicit RankProblem(const RankShape& s, double spread = 1)
      : shape(s),
        labels(s.rows, s.outputs, 4, 1),
        A(random_vector<Real>(s.rows * s.inputs, 2, -spread, spread)),
        W(random_vector<Real>(s.outputs * s.inputs, 3)),
        b(random_vector<Real>(s.outputs, 4)) {}

  struct Measured {
    double loss;
    std::vector<std::uint32_t> top;
  };

  Measured measure(int cores) const {
    Measured m{0, std::vector<std::uint32_t>(shape.rows * shape.k)};
    const SoftmaxLayer<Real> layer{.inputs = shape.inputs,
                                   .outputs = shape.outputs,
                                   .input = A.data(),
                                   .weight = W.data(),
                                   .bias = b.data()};
    m.loss = output_kernels(*make_cpu_device<Real>(cores))
                 .softmax_ranks(labels.view<Real>(false), layer, shape.k, m.top.data());
    return m;
  }

  // The same with all scores in memory.
  Measured measure_all_at_once() const {
    const auto& [rows, inputs, outputs, k] = shape;
    Measured m{0, std::vector<std::uint32_t>(rows * k)};
    std::vector<Real> Z(rows * outputs);
    const auto device = make_cpu_device<Real>(1);
    device->gemm(Transpose::no, Transpose::yes, rows, outputs, inputs, Real(1), A.data(), inputs,
                 W.data(), inputs, Real(0), Z.data(), outputs);
    m.loss =
        output_kernels(*device).softmax_loss(labels.view<Real>(false), outputs, b.data(), Z.data());
    output_kernels(*device).top_k(rows, outputs, Z.data(), k, m.top.data());
    return m;
  }

  RankShape shape;
  RandomSparse labels;
  std::vector<Real> A, W, b;
};

// 128 labels are one block on any machine in either precision.
TYPED_TEST(SoftmaxRanks, OneBlockOfLabelsGivesTheSameBits) {
  for (const RankShape& s : {RankShape{0, 8, 20, 5},
                             {1, 1, 1, 1},
                             {5, 7, 9, 3},
                             {16, 128, 33, 5},
                             {17, 33, 100, 16},
                             {70, 600, 128, 5}}) {
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.inputs << "x" << s.outputs);
    const RankProblem<TypeParam> problem(s);
    const auto expected = problem.measure_all_at_once();
    for (const int cores : kCoreCounts) {
      const auto actual = problem.measure(cores);
      EXPECT_EQ(actual.loss, expected.loss);
      EXPECT_EQ(actual.top, expected.top);
    }
  }
}

// The scores have the same bits for any number of labels, so the ranking is the same to the last
// tie.
TYPED_TEST(SoftmaxRanks, ManyBlocksOfLabels) {
  for (const RankShape& s : {RankShape{1, 5, 1025, 16}, {33, 7, 4097, 5}, {40, 300, 2500, 3}}) {
    for (const double spread : {1.0, 40.0}) {
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.inputs << "x" << s.outputs);
      const RankProblem<TypeParam> problem(s, spread);
      const auto expected = problem.measure_all_at_once(), actual = problem.measure(1);
      EXPECT_NEAR(actual.loss, expected.loss, kTolerance<TypeParam> * std::max(1.0, expected.loss));
      EXPECT_EQ(actual.top, expected.top);
      const auto shared = problem.measure(3);
      EXPECT_EQ(shared.loss, actual.loss);
      EXPECT_EQ(shared.top, actual.top);
    }
  }
}

TYPED_TEST(SoftmaxRanks, EqualScoresRankByLabel) {
  RankProblem<TypeParam> problem({20, 3, 3000, 7});
  for (auto* v : {&problem.A, &problem.W, &problem.b}) {
    for (auto& x : *v) x = std::round(x * 2);
  }
  EXPECT_EQ(problem.measure(1).top, problem.measure_all_at_once().top);
}

TYPED_TEST(SoftmaxRanks, HugeScoresAreSafeAndNaNShows) {
  using Real = TypeParam;
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  const Real infinity = std::numeric_limits<Real>::infinity();
  RankProblem<Real> good({9, 4, 2100, 5});
  good.b[0] = Real(-1e30);
  good.b[2000] = Real(1e30);
  EXPECT_TRUE(std::isfinite(good.measure(1).loss));
  // A block without any finite score is as if it were not there.
  RankProblem<Real> without({9, 4, 2100, 5});
  std::fill_n(without.b.begin(), 1024, -infinity);
  EXPECT_EQ(without.measure(1).top, without.measure_all_at_once().top);
  for (const std::size_t at : {0UL, 20UL, 1500UL, 2099UL}) {
    for (const Real bad : {nan, infinity}) {
      RankProblem<Real> broken({9, 4, 2100, 5});
      broken.b[at] = bad;
      EXPECT_TRUE(std::isnan(broken.measure(1).loss)) << at;
      EXPECT_EQ(broken.measure(1).top, broken.measure_all_at_once().top) << at;
    }
  }
  RankProblem<Real> lost({9, 4, 2100, 5});
  std::ranges::fill(lost.b, nan);
  EXPECT_TRUE(std::isnan(lost.measure(1).loss));
  EXPECT_EQ(lost.measure(1).top, lost.measure_all_at_once().top);
}

TYPED_TEST(SoftmaxRanks, TheBestOfNoOrTooManyLabelsAreABrokenPromise) {
  for (const RankShape& s : {RankShape{2, 3, 100, 0}, {2, 3, 100, 17}, {2, 3, 4, 5}}) {
    EXPECT_THROW(RankProblem<TypeParam>(s).measure(1), CheckFailure);
  }
}

// 200 x 670,091 scores are 536 MB.
TEST(SoftmaxRanksMemory, ScoresAreNeverAllInMemory) {
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const RankProblem<float> problem({200, 1, 670'091, 5});
  const auto before = peak_kib();
  EXPECT_TRUE(std::isfinite(problem.measure(1).loss));
  EXPECT_LT(peak_kib() - before, 100 * 1024);
}

}  // namespace
}  // namespace hetsgd::test
