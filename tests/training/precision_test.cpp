// --precision bf16 on CPUs: the products of steps are rounded, and nothing else is.

#include "support/run.hpp"
#include "training/simulation/estimate.hpp"

namespace hetsgd::test {
namespace {

Record on(const std::string& cluster, const char* precision) {
  return run_with(tiny_steps("ssgd"), "--workers 2 --cluster {} --precision {}", cluster,
                  precision);
}

TEST(Precision, Bf16RoundsTheProductsOfSteps) {
  const std::vector<double> exact = step_losses(on("sim", "fp32"));
  const std::vector<double> rounded = step_losses(on("sim", "bf16"));
  EXPECT_NE(rounded, exact);
  ASSERT_EQ(rounded.size(), exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(rounded[i], exact[i], 1e-2 * exact[i]);
}

TEST(Precision, Bf16HasTheSameBitsInEveryRun) {
  const Record simulated = on("sim", "bf16");
  for (const char* cluster : {"sim", "threads"}) {
    const Record again = on(cluster, "bf16");
    EXPECT_EQ(step_losses(again), step_losses(simulated)) << cluster;
    EXPECT_EQ(test_losses(again), test_losses(simulated)) << cluster;
  }
}

// The initial model is the same at every precision, and so is its measurement. An evaluation with
// rounded products would differ in it.
TEST(Precision, EvaluationIsFp32) {
  for (const char* cluster : {"sim", "threads"}) {
    EXPECT_EQ(test_losses(on(cluster, "bf16")).front(), test_losses(on(cluster, "fp32")).front());
  }
}

// A step of sgd is one computation, and its time is that of its operations.
TEST(Precision, SimChargesTheRateOfThePrecision) {
  const auto elapsed = [](const char* profile, const char* precision) {
    return run_with(tiny("sgd"), "--max-samples 640 --profile {} --precision {}", profile,
                    precision)
        .elapsed;
  };
  const Seconds fp32 = elapsed("@compute_only_profile", "fp32");
  EXPECT_EQ(elapsed("@compute_only_bf16_profile", "fp32"), fp32);
  EXPECT_EQ(elapsed("@compute_only_profile", "bf16"), fp32);
  EXPECT_EQ(elapsed("@compute_only_bf16_profile", "bf16"), fp32 / 4);
}

TEST(Precision, AProfileWithoutARateForBf16IsSaid) {
  const auto warns = [](const char* profile, const char* precision) {
    const Record record =
        run_with(tiny("sgd"), "--max-samples 64 --profile {} --precision {}", profile, precision);
    return std::ranges::any_of(record.warnings, [](const std::string& text) {
      return text.find("no bf16_operations_per_s") != text.npos;
    });
  };
  EXPECT_TRUE(warns("@compute_only_profile", "bf16"));
  EXPECT_FALSE(warns("@compute_only_profile", "fp32"));
  EXPECT_FALSE(warns("@compute_only_bf16_profile", "bf16"));
}

// The time that --dry-run expects, and the steps of drawn sentences.
TEST(Precision, EstimatesAndDrawnStepsTakeTheSameRate) {
  const auto settings = [](const char* precision) {
    return with(tiny("sgd"),
                "--max-samples 640 --charge transformer-wmt --profile @compute_only_bf16_profile "
                "--precision {}",
                precision);
  };
  const auto step_s = [&](const char* precision) {
    return plan_of_run(Configuration(settings(precision)).spec())["estimate"]["step_s"]
        .get<double>();
  };
  EXPECT_EQ(step_s("bf16"), step_s("fp32") / 4);
  EXPECT_EQ(run_training(settings("bf16")).elapsed, run_training(settings("fp32")).elapsed / 4);
}

}  // namespace
}  // namespace hetsgd::test
