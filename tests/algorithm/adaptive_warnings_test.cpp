// adaptive's warnings: growth of a model by merges alone, scaling that overshoots, and the runs
// that are warned.

#include "algorithm/parts/adaptive_warnings.hpp"

#include "support/compare.hpp"

namespace hetsgd::test {
namespace {

double growth(double gamma, double weight_sum, int merges) {
  Inflation inflation(gamma);
  for (int i = 0; i < merges; ++i) inflation.merge(weight_sum);
  return inflation.growth();
}

TEST(Inflation, WithoutMomentumIsTheProductOfTheSums) {
  EXPECT_EQ(growth(0, 1, 100), 1);
  EXPECT_EQ(growth(0, 1.5, 4), 1.5 * 1.5 * 1.5 * 1.5);
}

// Weights that add up to 1 never stretch, whatever the momentum.
TEST(Inflation, NormalisedWeightsDoNot) {
  for (const double gamma : {0.0, 0.5, 0.9, 1.0}) EXPECT_EQ(growth(gamma, 1, 1000), 1);
}

// With momentum g' = (1 + e) g + gamma (g - g_p). Its growth ends at the larger root of x^2 = (1 +
// e + gamma) x - gamma, which is 1 + e / (1 - gamma) to first order.
TEST(Inflation, MomentumMultipliesIt) {
  for (const double gamma : {0.5, 0.9}) {
    for (const double e : {1e-5, 0.002, 0.018}) {
      Inflation inflation(gamma);
      for (int i = 0; i < 500; ++i) inflation.merge(1 + e);
      const double s = 1 + e + gamma;
      EXPECT_NEAR(inflation.rate(), (s + std::sqrt(s * s - 4 * gamma)) / 2 - 1, 1e-9);
    }
  }
}

const Settings kFour =
    "--train generate:tiny?rows_train=2560&rows_test=32 --test "
    "generate:tiny?rows_train=2560&rows_test=32 --cache false --algorithm adaptive --workers 4 "
    "--hidden 8 --batch-size 16 --mega-batch 40 --max-samples 12800 --learning-rate 0.1 --profile "
    "@latency_only_profile --network ideal";

std::vector<std::string> warnings_of(const Settings& more) {
  Record run = run_with(kFour, more);
  EXPECT_GE(merges(run).size(), 20U);
  // How well it has learnt is not asked here.
  std::erase_if(run.warnings, [](const std::string& text) {
    return text.find("than a constant guess") != std::string::npos;
  });
  return run.warnings;
}

// One worker of four is four times slower, whatever its batch, and no model reaches the norm.
const Settings kSlow = "--straggler kind=constant,worker=3,factor=4 --pert-norm l2_over_n";

TEST(Inflation, AdaptiveWarnsOnceOfAModelThatMergesDestroy) {
  const auto warnings = warnings_of(kSlow);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings.front().find("merges alone have multiplied the model's norm by 2.") !=
              std::string::npos)
      << warnings.front();
  for (const char* option : {"--delta 0", "--gamma 0", "--pert-threshold"}) {
    EXPECT_TRUE(warnings.front().find(option) != std::string::npos) << option;
  }
}

TEST(Inflation, AdaptiveDoesNotWarnWhereNothingGrows) {
  EXPECT_TRUE(warnings_of({}).empty());  // equal workers
  EXPECT_TRUE(warnings_of(with(kSlow, "--delta 0")).empty());
  EXPECT_TRUE(warnings_of(with(kSlow, "--gamma 0")).empty());
  EXPECT_TRUE(warnings_of(with(kSlow, "--pert-norm rms --pert-threshold 0.01")).empty());
}

// Two workers of unequal speed, batches of at most 16 that take times proportional to their size:
// 80 batches make mu 40, and beta 1 a gain of 40 / 16 = 2.5; 40 batches half of it.
TEST(Overshoot, AdaptiveWarnsOnceWhereUpdatesStayUnequal) {
  const Settings two =
      "--workers 2 --train generate:tiny?rows_train=12560&rows_test=32 --mega-batch 80 "
      "--max-samples 32000 --speed 1,0.9 --delta 0 --profile @compute_only_profile";
  const auto overshoots = warnings_of(two);
  ASSERT_EQ(overshoots.size(), 1U);
  EXPECT_NE(overshoots.front().find("updates stay unequal"), std::string::npos)
      << overshoots.front();
  EXPECT_TRUE(warnings_of(with(two, "--beta 0.2")).empty());
  EXPECT_TRUE(warnings_of(with(two, "--mega-batch 40")).empty());
  EXPECT_EQ(warnings_of(with(two, "--mega-batch 40 --beta 3")).size(), 1U);
}

}  // namespace
}  // namespace hetsgd::test
