// Each optimizer against closed forms of a few updates; longer runs against NumPy and PyTorch are
// in tests/reference/numpy_optimizers.py.
#include "optimizer/optimizer.hpp"

#include "support/failure.hpp"

namespace hetsgd {
namespace {

using Vector = std::vector<float>;

constexpr OptimizerKind kAll[] = {
    OptimizerKind::sgd,  OptimizerKind::momentum, OptimizerKind::nesterov, OptimizerKind::adagrad,
    OptimizerKind::adam, OptimizerKind::lars,     OptimizerKind::lamb};

class Replica {
 public:
  Replica(const OptimizerOptions& options, Vector start, const std::vector<Tensor>& tensors = {})
      : w(std::move(start)),
        device_(make_cpu_device<float>(1)),
        optimizer_(make_optimizer(
            options, *device_, w.size(),
            tensors.empty() ? std::vector<Tensor>{{.offset = 0, .size = w.size()}} : tensors)) {}

  void update(double lr, const Vector& g, int times = 1) {
    for (int k = 0; k < times; ++k) optimizer_->update(*device_, lr, g, w);
  }
  double passes() const { return optimizer_->passes(); }

  Vector w;

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Optimizer> optimizer_;
};

// |got - expected| <= 1e-6, absolute: the numbers below are around 1.
void expect_near(const Vector& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
}

TEST(Sgd, MovesAgainstTheGradient) {
  Replica r({}, {1, 2, 3});
  r.update(0.5, {2, -2, 0});
  EXPECT_EQ(r.w, (Vector{0, 3, 3}));
}

// Without a gradient: w_k = (1 - lr lambda)^k w_0.
TEST(Sgd, WeightDecayShrinks) {
  Replica r({.weight_decay = 0.5}, {4, -8});
  r.update(0.5, {0, 0}, 3);
  EXPECT_EQ(r.w, (Vector{1.6875F, -3.375F}));  // 0.75^3
}

// A tensor moves by its own gradient alone: as that of an optimizer whose lambda is 0 for all.
TEST(Optimizers, DecayTheTensorsThatDecay) {
  const Vector start{1, -2, 3, 0.5F}, g{0.5F, 1, -0.25F, 2};
  const auto moved = [&](OptimizerOptions options, bool first_decays, bool second_decays) {
    Replica r(options, start,
              {{.offset = 0, .size = 2, .decays = first_decays},
               {.offset = 2, .size = 2, .decays = second_decays}});
    r.update(0.125, g, 3);
    return r.w;
  };
  for (const OptimizerKind kind : kAll) {
    for (const bool decoupled : {false, true}) {
      const OptimizerOptions options{.kind = kind,
                                     .weight_decay = 0.25,
                                     .decoupled = decoupled,
                                     .clip_norm = 1,
                                     .lars_trust = 1};
      OptimizerOptions without = options;
      without.weight_decay = 0;
      const Vector all = moved(options, true, true), none = moved(without, true, true);
      expect_near(moved(options, false, false), {none[0], none[1], none[2], none[3]});
      expect_near(moved(options, true, false), {all[0], all[1], none[2], none[3]});
      expect_near(moved(options, false, true), {none[0], none[1], all[2], all[3]});
      EXPECT_GT(std::abs(all[0] - none[0]), 1e-5F);
    }
  }
}

// ||(3, 4)|| = 5 is brought down to 1, (0.3, 0.4) stays; the decay is not clipped.
TEST(Sgd, ClipsTheGradientsNorm) {
  Replica r({.clip_norm = 1}, {0, 0});
  r.update(1, {3, 4});
  expect_near(r.w, {-0.6, -0.8});
  r.update(1, {0.3F, 0.4F});
  expect_near(r.w, {-0.9, -1.2});
  Replica decaying({.weight_decay = 0.5, .clip_norm = 1}, {2, 2});
  decaying.update(1, {3, 4});
  expect_near(decaying.w, {0.4, 0.2});
}

// Constant g: v_k = g (1 + mu + ... + mu^(k-1)). mu = 1/2: v = g, 1.5 g, 1.75 g.
TEST(Momentum, AddsUpAGeometricSeries) {
  Replica r({.kind = OptimizerKind::momentum, .momentum = 0.5}, {0, 1});
  r.update(0.5, {2, 4}, 3);
  EXPECT_EQ(r.w, (Vector{-4.25F, 1 - 8.5F}));  // 0.5 (1 + 1.5 + 1.75) g
}

// Each update moves by g + mu v: (1 + 0.5) g, (1 + 0.75) g, (1 + 0.875) g.
TEST(Nesterov, LooksAhead) {
  Replica r({.kind = OptimizerKind::nesterov, .momentum = 0.5}, {0, 1});
  r.update(0.5, {2, 4}, 3);
  EXPECT_EQ(r.w, (Vector{-5.125F, 1 - 10.25F}));
}

// Constant g: h_k = k g^2, so with epsilon 0 the k-th update is lr / sqrt(k), whatever g is. Four
// updates: 1 + 0.70711 + 0.57735 + 0.5.
TEST(AdaGrad, StepsShrinkWithTheRootOfTheirNumber) {
  Replica r({.kind = OptimizerKind::adagrad, .epsilon = 1e-30}, {0, 0, 0, 1});
  r.update(0.5, {0.25F, -3, 40, 0}, 4);
  const double sum = 1 + 1 / std::sqrt(2.0) + 1 / std::sqrt(3.0) + 0.5;
  expect_near(r.w, {-0.5 * sum, 0.5 * sum, -0.5 * sum, 1});
}

// Constant g: both corrected moments are exact, m' = g and v' = g^2, so every update moves each
// number by lr g / (|g| + epsilon).
TEST(Adam, MovesByTheLearningRateUnderAConstantGradient) {
  Replica r({.kind = OptimizerKind::adam, .epsilon = 0.5}, {0, 0, 0, 1});
  r.update(0.125, {0.5F, -1.5F, 4, 0}, 10);
  expect_near(r.w, {-1.25 * 0.5, 1.25 * 0.75, -1.25 * 4 / 4.5, 1});
}

// The first update is lr in the direction of the decayed gradient's sign, or the two parts each.
TEST(Adam, WeightDecayIsCoupledOrNot) {
  const OptimizerOptions coupled{.kind = OptimizerKind::adam, .weight_decay = 0.5};
  Replica l2(coupled, {2, 2});
  l2.update(0.25, {-4, 0});
  expect_near(l2.w, {2.25, 1.75});
  OptimizerOptions decoupled = coupled;
  decoupled.decoupled = true;
  Replica adamw(decoupled, {2, 2});
  adamw.update(0.25, {-4, 0});
  expect_near(adamw.w, {2.25 - 0.25, 1.75});
  adamw.update(0.25, {-4, 0});
  expect_near(adamw.w, {2 + 0.25 - 0.25, 1.75 * 0.875});  // (1 - lr lambda)^2 w
}

const std::vector<Tensor> kTensors = {{0, 2}, {2, 3}};

// ||w|| = 5, ||g|| = 10, lambda 0.5: lr ratio = 0.5 * 0.1 * 5 / (10 + 2.5) = 0.02. Second update
// with mu = 1/2: w = (2.85, 3.76) and so on, by the same formula.
TEST(Lars, ScalesEachTensorByItsNorms) {
  const OptimizerOptions options{
      .kind = OptimizerKind::lars, .momentum = 0.5, .weight_decay = 0.5, .lars_trust = 0.1};
  Replica r(options, {3, 4, 2, 0, 0}, kTensors);
  const Vector g = {6, 8, 0, 1, 0};
  r.update(0.5, g);
  // Tensor 2: ||w|| = 2, ||g|| = 1: lr ratio = 0.5 * 0.1 * 2 / (1 + 1) = 0.05.
  expect_near(r.w, {3 - 0.02 * 7.5, 4 - 0.02 * 10, 2 - 0.05 * 1, -0.05 * 1, 0});
  const double w0 = r.w[0], w1 = r.w[1], size = std::hypot(w0, w1);
  const double rate = 0.5 * 0.1 * size / (10 + 0.5 * size);
  r.update(0.5, g);
  EXPECT_NEAR(r.w[0], w0 - (0.5 * 0.15 + rate * (6 + 0.5 * w0)), 1e-6);
  EXPECT_NEAR(r.w[1], w1 - (0.5 * 0.2 + rate * (8 + 0.5 * w1)), 1e-6);
}

// First update: m' / sqrt(v') is the sign of g, r = sign(g) + lambda w = (3, -1) here;
// ||w|| / ||r|| = sqrt(32 / 10).
TEST(Lamb, FirstUpdateByHand) {
  Replica r({.kind = OptimizerKind::lamb, .weight_decay = 0.5}, {4, -4});
  r.update(0.5, {7, 0.001F});
  const double ratio = std::sqrt(32.0 / 10);
  EXPECT_NEAR(r.w[0], 4 - 0.5 * ratio * 3, 2e-5);  // epsilon against |g| = 0.001
  EXPECT_NEAR(r.w[1], -4 + 0.5 * ratio * 1, 2e-5);
}

// Zero weights (a bias at first) or a zero gradient: ratio 1, nothing divides by zero.
TEST(TrustRatio, IsOneWhereANormIsZero) {
  Replica lars({.kind = OptimizerKind::lars, .momentum = 0}, {0, 0, 1, 2, 3}, kTensors);
  lars.update(0.5, {2, 4, 0, 0, 0});
  EXPECT_EQ(lars.w, (Vector{-1, -2, 1, 2, 3}));
  Replica lamb({.kind = OptimizerKind::lamb}, {0, 0, 1, 2, 3}, kTensors);
  lamb.update(0.5, {2, -4, 0, 0, 0});
  expect_near(lamb.w, {-0.5, 0.5, 1, 2, 3});
}

TEST(Optimizer, LeavesTheGradientAlone) {
  for (const OptimizerKind kind : kAll) {
    Replica r({.kind = kind, .weight_decay = 0.5, .clip_norm = 0.5}, {1, 2, 3});
    const Vector g = {0, 1, 0};
    Vector given = g;
    r.update(0.5, given);
    EXPECT_EQ(given, g);
  }
}

TEST(Optimizer, ADivergedRunShows) {
  for (const OptimizerKind kind : kAll) {
    Replica r({.kind = kind}, {1, 2, 3});
    r.update(0.5, {0, std::nanf(""), 0});
    EXPECT_TRUE(std::isnan(r.w[1]));
  }
}

TEST(Optimizer, CountsTheVectorsThatItStreams) {
  const std::vector<double> passes = {3, 5, 5, 5, 7, 7, 11};
  for (std::size_t i = 0; i < std::size(kAll); ++i) {
    EXPECT_EQ(Replica({.kind = kAll[i]}, {1}).passes(), passes[i]);
    EXPECT_EQ(Replica({.kind = kAll[i], .weight_decay = 1, .clip_norm = 1}, {1}).passes(),
              passes[i] + 1);
  }
}

std::string refusal(const OptimizerOptions& options) {
  return test::failure_of([&] { options.validate(); }).message;
}

TEST(OptimizerOptions, RefusesWhatMakesNoSense) {
  for (const OptimizerKind kind : kAll) {
    EXPECT_EQ(refusal({.kind = kind}), "");
    const std::string decoupled = refusal({.kind = kind, .weight_decay = 0.1, .decoupled = true});
    EXPECT_EQ(decoupled.starts_with("--decoupled-weight-decay"), kind != OptimizerKind::adam);
  }
  EXPECT_EQ(refusal({.kind = OptimizerKind::adam, .beta2 = 1}),
            "--beta2: found 1, expected a number below 1");
}

}  // namespace
}  // namespace hetsgd
