// Row rules of embedding tables: two rows of two numbers, then two dense parameters.
#include "optimizer/row_rules.hpp"

#include "support/failure.hpp"

namespace hetsgd {
namespace {

using Floats = std::vector<float>;

const std::vector<Tensor> kTableAndDense = {{0, 4, 2}, {4, 2}};
const Floats kStart = {1, 2, 3, 4, 5, 6};

Floats after(const OptimizerOptions& options, const std::vector<Floats>& gradients,
             double learning_rate = 0.25, const std::vector<Tensor>& tensors = kTableAndDense) {
  const auto device = make_cpu_device<float>(1);
  const auto optimizer = make_optimizer(options, *device, kStart.size(), tensors);
  Floats w = kStart;
  for (const Floats& g : gradients) optimizer->update(*device, learning_rate, g, w);
  return w;
}

Floats table(const Floats& w) { return {w.begin(), w.begin() + 4}; }
Floats dense(const Floats& w) { return {w.begin() + 4, w.end()}; }

// The second row is never touched, the first one in two updates of three.
const std::vector<Floats> kGradients = {
    {0.5F, -1, 0, 0, 1, -1}, {0, 0, 0, 0, 2, 1}, {-0.25F, 3, 0, 0, 0.5F, 0.5F}};
const OptimizerKind kKinds[] = {OptimizerKind::sgd, OptimizerKind::adagrad, OptimizerKind::adam,
                                OptimizerKind::momentum};
const std::pair<TableRule, OptimizerKind> kRules[] = {{TableRule::sgd, OptimizerKind::sgd},
                                                      {TableRule::adagrad, OptimizerKind::adagrad},
                                                      {TableRule::adam, OptimizerKind::adam}};

TEST(RowRules, TheDenseParametersMoveAsWithoutATable) {
  for (const OptimizerKind kind : kKinds) {
    const Floats expected =
        dense(after({.kind = kind, .weight_decay = 0.5}, kGradients, 0.25, {{0, 4}, {4, 2}}));
    for (const auto& [rule, as] : kRules) {
      EXPECT_EQ(dense(after({.kind = kind, .weight_decay = 0.5, .table_rule = rule}, kGradients)),
                expected);
    }
  }
}

// Without weight decay, and each at its own learning rate.
TEST(RowRules, ATableMovesByItsRuleWhateverTheOptimizer) {
  for (const auto& [rule, as] : kRules) {
    const Floats alone = table(after({.kind = as}, kGradients));
    for (const OptimizerKind kind : kKinds) {
      EXPECT_EQ(table(after({.kind = kind, .weight_decay = 0.5, .table_rule = rule}, kGradients)),
                alone);
      EXPECT_EQ(
          table(after({.kind = kind, .table_rule = rule, .table_rate = 0.5}, kGradients, 0.5)),
          alone);
    }
  }
}

TEST(RowRules, RowsThatNoSampleTouchedKeepTheirBits) {
  for (const auto& [rule, as] : kRules) {
    const Floats w = after({.kind = as, .table_rule = rule}, kGradients);
    EXPECT_EQ(w[2], 3);
    EXPECT_EQ(w[3], 4);
    EXPECT_NE(w[0], 1);
  }
}

// adagrad's sum and adam's moments of a row wait while others learn. An update in which a row has
// no gradient changes nothing for it (except adam's step number, here made negligible by beta 0).
TEST(RowRules, StateWaitsWithItsRow) {
  const std::vector<Floats> without = {kGradients[0], kGradients[2]};
  EXPECT_EQ(table(after({.kind = OptimizerKind::adagrad}, kGradients)),
            table(after({.kind = OptimizerKind::adagrad}, without)));
  const OptimizerOptions adam{.kind = OptimizerKind::adam, .beta1 = 0, .beta2 = 0};
  EXPECT_EQ(table(after(adam, kGradients)), table(after(adam, without)));
}

TEST(RowRules, TouchedRowsAloneAreTheSameBits) {
  const auto device = make_cpu_device<float>(1);
  const std::vector<std::uint32_t> touched[] = {{0}, {}, {0}};
  for (const auto& [rule, as] : kRules) {
    const OptimizerOptions options{.kind = OptimizerKind::adam, .table_rule = rule};
    const auto optimizer = make_optimizer(options, *device, kStart.size(), kTableAndDense);
    Floats w = kStart;
    for (std::size_t i = 0; i < kGradients.size(); ++i) {
      optimizer->update_touched(*device, 0.25, kGradients[i], {&touched[i], 1}, w);
    }
    EXPECT_EQ(w, after(options, kGradients));
  }
}

// By hand: g = 0.5, then nothing, then -0.25, with beta1 = beta2 = 1/2, epsilon 0 (nearly), lr 1/4.
//   t = 1: m' = g, v' = g^2: w = 1 - 1/4
//   t = 3: m = 1/2 * 1/4 - 1/8 = 0: w stays
TEST(RowRules, LazyAdamByHand) {
  const Floats w = after(
      {.kind = OptimizerKind::adam, .beta1 = 0.5, .beta2 = 0.5, .epsilon = 1e-20}, kGradients);
  EXPECT_FLOAT_EQ(w[0], 0.75F);
  // The second number of the row: g = -1, 3. m = -1/2, then -1/4 + 3/2 = 5/4, corrected by 7/8;
  // v = 1/2, then 1/4 + 9/2 = 19/4, corrected likewise.
  EXPECT_FLOAT_EQ(w[1], static_cast<float>(2 + 0.25 - 0.25 * (10.0 / 7) / std::sqrt(38.0 / 7)));
}

TEST(RowRules, OneRuleForAllNeedsNoSplit) {
  const auto split = [](const OptimizerOptions& options) {
    return needs_row_rule(options, kTableAndDense);
  };
  EXPECT_FALSE(split({}));
  EXPECT_FALSE(split({.kind = OptimizerKind::adagrad, .clip_norm = 1}));
  EXPECT_TRUE(split({.kind = OptimizerKind::adagrad}));    // touched rows alone
  EXPECT_FALSE(split({.kind = OptimizerKind::momentum}));  // refused before
  EXPECT_TRUE(split({.kind = OptimizerKind::adam}));
  EXPECT_TRUE(split({.weight_decay = 0.1}));
  EXPECT_TRUE(split({.table_rate = 2}));
  EXPECT_TRUE(split({.table_rule = TableRule::adam}));
  EXPECT_FALSE(needs_row_rule({.kind = OptimizerKind::adam}, {{0, 4}, {4, 2}}));
}

TEST(RowRules, RefuseWhatMakesNoSense) {
  const std::vector<Tensor> none = {{0, 4}, {4, 2}};
  const auto why_refused = [](const OptimizerOptions& options, const std::vector<Tensor>& tensors) {
    return test::failure_of([&] { check_row_rule(options, tensors); }).message;
  };
  for (const OptimizerKind kind : kKinds) {
    EXPECT_EQ(why_refused({.kind = kind}, none), "");
    const std::string why = why_refused({.kind = kind}, kTableAndDense);
    EXPECT_EQ(why.starts_with("--optimizer: "), kind == OptimizerKind::momentum) << why;
    EXPECT_EQ(why_refused({.kind = kind, .table_rule = TableRule::sgd}, kTableAndDense), "");
  }
  EXPECT_TRUE(
      why_refused({.table_rule = TableRule::adam}, none).starts_with("--table-optimizer: "));
  EXPECT_TRUE(why_refused({.table_learning_rate = 1}, none).starts_with("--table-learning-rate: "));
  EXPECT_EQ(why_refused({.clip_norm = 1}, kTableAndDense), "");
  EXPECT_TRUE(why_refused({.kind = OptimizerKind::adam, .clip_norm = 1}, kTableAndDense)
                  .starts_with("--clip-norm: "));
}

TEST(RowRules, ChargeEachPartItsPasses) {
  const auto device = make_cpu_device<float>(1);
  const auto passes = [&](const OptimizerOptions& options) {
    return make_optimizer(options, *device, 6, kTableAndDense)->passes();
  };
  EXPECT_DOUBLE_EQ(passes({.kind = OptimizerKind::adam}), 7);
  EXPECT_DOUBLE_EQ(passes({.table_rule = TableRule::adam}), (4 * 7 + 2 * 3) / 6.0);
  EXPECT_DOUBLE_EQ(passes({.table_rule = TableRule::adagrad}), (4 * 5 + 2 * 3) / 6.0);
}

}  // namespace
}  // namespace hetsgd
