// The fused output layer against its definition, in both of its uses: gradient and step.
#include <gtest/gtest.h>

#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

struct LayerShape {
  std::size_t rows, inputs, outputs;
};

// Batches and inputs below, at and above whole panels; few labels; many labels (several blocks).
const LayerShape kLayerShapes[] = {{1, 1, 1},       {1, 128, 40},   {5, 7, 9},      {16, 32, 33},
                                   {17, 33, 100},   {64, 128, 983}, {33, 40, 2500}, {300, 50, 700},
                                   {40, 300, 1111}, {0, 8, 20}};

template <class Real>
struct Problem {
  Problem(const LayerShape& s, double spread = 1)
      : shape(s),
        labels(s.rows, s.outputs, 4, 1),
        A(random_vector<Real>(s.rows * s.inputs, 2, -spread, spread)),
        W(random_vector<Real>(s.outputs * s.inputs, 3)),
        b(random_vector<Real>(s.outputs, 4)),
        G(random_vector<Real>(s.outputs * s.inputs, 5)),
        g(random_vector<Real>(s.outputs, 6)),
        dA(s.rows * s.inputs, Real(99)) {}

  SoftmaxLayer<Real> layer(double alpha, double beta) {
    return {.inputs = shape.inputs,
            .outputs = shape.outputs,
            .input = A.data(),
            .weight = W.data(),
            .bias = b.data(),
            .scale = Real(kScale),
            .alpha = Real(alpha),
            .beta = Real(beta),
            .weight_gradient = G.data(),
            .bias_gradient = g.data(),
            .input_gradient = dA.data()};
  }

  static constexpr double kScale = 0.125;
  LayerShape shape;
  RandomSparse labels;
  std::vector<Real> A, W, b, G, g, dA;
};

struct Expected {
  double loss;
  std::vector<double> dW, db, dA;
};

template <class Real>
Expected reference(const Problem<Real>& p) {
  const auto& [rows, inputs, outputs] = p.shape;
  std::vector<double> Z(rows * outputs);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t l = 0; l < outputs; ++l) {
      double sum = double(p.b[l]);
      for (std::size_t h = 0; h < inputs; ++h)
        sum += double(p.A[r * inputs + h]) * double(p.W[l * inputs + h]);
      Z[r * outputs + l] = sum;
    }
  }
  const auto softmax =
      softmax_reference(rows, outputs, Z, p.labels.dense(false), Problem<Real>::kScale);
  Expected e{softmax.loss, std::vector<double>(outputs * inputs), std::vector<double>(outputs),
             std::vector<double>(rows * inputs)};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t l = 0; l < outputs; ++l) {
      const double d = softmax.gradient[r * outputs + l];
      e.db[l] += d;
      for (std::size_t h = 0; h < inputs; ++h) {
        e.dW[l * inputs + h] += d * double(p.A[r * inputs + h]);
        e.dA[r * inputs + h] += d * double(p.W[l * inputs + h]);
      }
    }
  }
  return e;
}

std::vector<double> combine(double beta, const std::vector<double>& x, double alpha,
                            const std::vector<double>& y) {
  std::vector<double> result(y.size());
  for (std::size_t i = 0; i < y.size(); ++i)
    result[i] = (beta == 0 ? 0 : beta * x[i]) + alpha * y[i];
  return result;
}

template <class Real>
class SoftmaxLayerTest : public ::testing::Test {};
TYPED_TEST_SUITE(SoftmaxLayerTest, RealTypes);

TYPED_TEST(SoftmaxLayerTest, GradientMatchesTheDefinition) {
  using Real = TypeParam;
  for (const LayerShape& s : kLayerShapes) {
    const Problem<Real> original(s);
    const Expected e = reference(original);
    for (const int cores : kCoreCounts) {
      SCOPED_TRACE(::testing::Message()
                   << s.rows << "x" << s.inputs << "x" << s.outputs << " on " << cores);
      const auto device = make_cpu_device<Real>(cores);
      for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {-0.5, 1.0}, {2.0, 0.5}}) {
        Problem<Real> p = original;
        const auto G0 = widen(p.G), g0 = widen(p.g);
        if (beta == 0) {
          std::fill(p.G.begin(), p.G.end(), std::numeric_limits<Real>::quiet_NaN());
          std::fill(p.g.begin(), p.g.end(), std::numeric_limits<Real>::quiet_NaN());
        }
        const double loss = output_kernels(*device).softmax_layer(
            p.labels.template view<Real>(false), p.layer(alpha, beta));
        EXPECT_NEAR(loss, e.loss, kTolerance<Real> * std::max(1.0, e.loss));
        expect_close(p.G, combine(beta, G0, alpha, e.dW), kTolerance<Real>, "G");
        expect_close(p.g, combine(beta, g0, alpha, e.db), kTolerance<Real>, "g");
        expect_close(p.dA, e.dA, kTolerance<Real>, "dA");
      }
    }
  }
}

TYPED_TEST(SoftmaxLayerTest, StepMovesTheWeightsInPlaceAndHandsDownTheGradientAtTheOldOnes) {
  using Real = TypeParam;
  for (const LayerShape& s : kLayerShapes) {
    const Problem<Real> original(s);
    const Expected e = reference(original);
    for (const int cores : kCoreCounts) {
      Problem<Real> p = original;
      const auto W0 = widen(p.W), b0 = widen(p.b);
      SoftmaxLayer<Real> layer = p.layer(-0.7, 1.0);
      layer.weight_gradient = p.W.data();
      layer.bias_gradient = p.b.data();
      output_kernels(*make_cpu_device<Real>(cores))
          .softmax_layer(p.labels.template view<Real>(false), layer);
      expect_close(p.W, combine(1, W0, -0.7, e.dW), kTolerance<Real>, "W");
      expect_close(p.b, combine(1, b0, -0.7, e.db), kTolerance<Real>, "b");
      expect_close(p.dA, e.dA, kTolerance<Real>, "dA");
    }
  }
}

TYPED_TEST(SoftmaxLayerTest, SaturatedSoftmaxStaysExact) {
  using Real = TypeParam;
  Problem<Real> p({20, 64, 1500}, 30.0);  // logits of some hundreds
  const Expected e = reference(p);
  const double loss = output_kernels(*make_cpu_device<Real>(1))
                          .softmax_layer(p.labels.template view<Real>(false), p.layer(1, 0));
  EXPECT_NEAR(loss, e.loss, 10 * kTolerance<Real> * e.loss);
  // The logits themselves carry a rounding error of about 1e-5 in float.
  expect_close(p.G, e.dW, 20 * kTolerance<Real>, "G");
}

TYPED_TEST(SoftmaxLayerTest, SameBitsWheneverItRuns) {
  using Real = TypeParam;
  for (const int cores : kCoreCounts) {
    const auto device = make_cpu_device<Real>(cores);
    Problem<Real> first({100, 128, 3000});
    const double loss = output_kernels(*device).softmax_layer(
        first.labels.template view<Real>(false), first.layer(1, 0));
    for (int repeat = 0; repeat < 5; ++repeat) {
      Problem<Real> other({77, 96, 500});  // leaves different scratch behind
      output_kernels(*device).softmax_layer(other.labels.template view<Real>(false),
                                            other.layer(1, 0));
      Problem<Real> again({100, 128, 3000});
      EXPECT_EQ(output_kernels(*device).softmax_layer(again.labels.template view<Real>(false),
                                                      again.layer(1, 0)),
                loss);
      EXPECT_EQ(again.G, first.G);
      EXPECT_EQ(again.dA, first.dA);
    }
  }
}

TYPED_TEST(SoftmaxLayerTest, ABrokenLogitOfALabelledRowBreaksTheLoss) {
  using Real = TypeParam;
  for (const std::size_t label : {0UL, 31UL, 1499UL}) {
    for (const Real bad :
         {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
      Problem<Real> p({12, 24, 1500});
      p.b[label] = bad;
      EXPECT_TRUE(
          std::isnan(output_kernels(*make_cpu_device<Real>(1))
                         .softmax_layer(p.labels.template view<Real>(false), p.layer(1, 0))));
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
