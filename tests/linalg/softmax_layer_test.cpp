// The fused output layer against its definition, in both of its uses: gradient and step.
#include "linalg/softmax_problem.hpp"

namespace hetsgd::test {
namespace {

// Batches and inputs below, at and above whole panels; few labels; many labels (several blocks).
const LayerShape kLayerShapes[] = {{1, 1, 1},       {1, 128, 40},   {5, 7, 9},       {16, 32, 33},
                                   {17, 33, 100},   {64, 128, 983}, {33, 40, 2500},  {300, 50, 700},
                                   {40, 300, 1111}, {33, 40, 4097}, {130, 20, 9000}, {0, 8, 20}};

template <class Real>
class SoftmaxLayerTest : public ::testing::Test {};
TYPED_TEST_SUITE(SoftmaxLayerTest, RealTypes);

std::vector<double> combine(double beta, const std::vector<double>& x, double alpha,
                            const std::vector<double>& y) {
  return numbers(y.size(), [&](auto i) { return (beta == 0 ? 0 : beta * x[i]) + alpha * y[i]; });
}

// A step moves the weights in place, and hands down the gradient at the old ones.
TYPED_TEST(SoftmaxLayerTest, GradientAndStepMatchTheDefinition) {
  using Real = TypeParam;
  for (const LayerShape& s : kLayerShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.inputs << "x" << s.outputs);
    const LayerProblem<Real> p(s);
    const LayerReference e = layer_by_definition(p);
    const auto G = widen(p.G), g = widen(p.g), W = widen(p.W), b = widen(p.b);
    on_devices<Real>(
        [&](auto& side) {
          for (const auto& [alpha, beta, in_place] : {std::tuple{1.0, 0.0, false},
                                                      {2.0, 0.5, false},
                                                      {-0.5, 1.0, false},
                                                      {-0.7, 1.0, true}}) {
            const auto found = p.run(side, alpha, beta, in_place);
            side.expect(found.loss, e.loss, kTolerance<Real>, "loss");
            side.expect(found.G, combine(beta, in_place ? W : G, alpha, e.dW), "G");
            side.expect(found.g, combine(beta, in_place ? b : g, alpha, e.db), "g");
            side.expect(found.dA, e.dA, "dA");
          }
        },
        Bits::of_each_device);
  }
}

TYPED_TEST(SoftmaxLayerTest, SaturatedSoftmaxStaysExact) {
  using Real = TypeParam;
  const LayerProblem<Real> p({20, 64, 1500}, 30.0);  // logits of some hundreds
  const LayerReference e = layer_by_definition(p);
  on_devices<Real>(
      [&](auto& side) {
        const auto found = p.run(side, 1, 0, false);
        side.expect(found.loss, e.loss, 10 * kTolerance<Real>, "loss");
        // The logits themselves carry a rounding error of about 1e-5 in float.
        side.expect(found.G, e.dW, "G", 20);
      },
      Bits::of_each_device);
}

TYPED_TEST(SoftmaxLayerTest, SameBitsWhateverScratchIsLeftBehind) {
  using Real = TypeParam;
  const LayerProblem<Real> first({100, 128, 3000}), other({77, 96, 500});
  on_devices<Real>(
      [&](auto& side) {
        std::vector<Results> results;
        for (int repeat = 0; repeat < 6; ++repeat) {
          Side<Real> own{side.device};
          first.run(own, 1, 0, false).take(own);
          results.push_back(own.results);
          EXPECT_TRUE(same_bits(results.back(), results.front()));
          other.run(own, 1, 0, false);
        }
      },
      Bits::of_each_device);
}

// Whole numbers, so that every score is exact and many are equal: the best labels are those of all
// scores to the last tie. Several pieces of a block, and several blocks.
TYPED_TEST(SoftmaxLayerTest, EqualScoresRankByLabel) {
  using Real = TypeParam;
  for (const LayerShape& s : {LayerShape{0, 3, 20},
                              {1, 1, 1},
                              {5, 7, 9},
                              {17, 128, 33},
                              {70, 600, 128},
                              {1, 5, 1025},
                              {20, 3, 3000},
                              {33, 7, 4097},
                              {40, 300, 2500},
                              {5, 6, 40'000},
                              {1030, 3, 9000}}) {
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.inputs << "x" << s.outputs);
    LayerProblem<Real> p(s);
    for (auto* const each : {&p.A, &p.W, &p.b}) {
      for (Real& x : *each) x = std::round(3 * x);
    }
    for (const std::size_t k : {1UL, 5UL, 16UL}) {
      if (k > s.outputs) continue;
      const auto expected = p.rank_all_at_once(k);
      on_devices<Real>([&](auto& side) {
        const auto found = p.rank(side, k);
        side.expect(found.loss, expected.loss, kTolerance<Real>, "loss");
        EXPECT_EQ(found.top, expected.top);
      });
    }
  }
}

TYPED_TEST(SoftmaxLayerTest, ABrokenLogitOfALabelledRowBreaksTheLoss) {
  using Real = TypeParam;
  for (const std::size_t label : {0UL, 31UL, 1499UL}) {
    for (const Real bad :
         {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
      LayerProblem<Real> p({12, 24, 1500});
      p.b[label] = bad;
      on_devices<Real>([&](auto& side) { EXPECT_TRUE(std::isnan(p.run(side, 1, 0, false).loss)); });
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
