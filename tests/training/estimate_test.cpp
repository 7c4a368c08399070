// Predictions of --dry-run against the run itself, on the simulated clock.
#include "training/simulation/estimate.hpp"

#include "support/run.hpp"

namespace hetsgd::test {
namespace {

const Settings kSetup =
    tiny("sgd", "--batch-size 16 --workers 4 --mega-batch 20 --learning-rate 0.1");

nlohmann::json estimate_of(const Settings& settings, const std::string& name) {
  return plan_of_run(Configuration(with(settings, {{"algorithm", name}})).spec())["estimate"];
}

// The run is many times as long as its trial; messages and stragglers are most of its time.
TEST(Estimate, IsCloseToTheSimulatedTimeOfTheRun) {
  for (const char* algorithm :
       {"ssgd", "elastic", "adaptive", "asgd", "esync", "rna", "local-sgd", "adpsgd"}) {
    for (const char* straggler : {"kind=uniform,min=0ms,max=5ms", "kind=constant,worker=3,factor=5",
                                  "kind=lognormal,median=1ms"}) {
      SCOPED_TRACE(fmt::format("{} {}", algorithm, straggler));
      const Settings setup = with(kSetup, "--epochs 10 --straggler {}", straggler);
      const nlohmann::json estimate = estimate_of(setup, algorithm);
      const Record run = run_with(setup, {{"algorithm", algorithm}});
      const double ratio = estimate["train_s"].get<double>() / run.elapsed.count();
      EXPECT_GT(ratio, 1 / 1.5);
      EXPECT_LT(ratio, 1.5);
      EXPECT_LT(5 * estimate["trial"]["samples_count"].get<double>(),
                static_cast<double>(run.curve.back().samples_count));
      EXPECT_GT(estimate["host_s"], 0);
      EXPECT_GE(estimate["evaluations_at_most"], run.curve.size());
    }
  }
}

TEST(Estimate, OfAShortRunIsTheRunItself) {
  const Settings setup = with(kSetup, "--epochs 0.3 --straggler kind=uniform,max=5ms");
  const double elapsed = run_with(setup, "--algorithm ssgd").elapsed.count();
  EXPECT_EQ(estimate_of(setup, "ssgd")["train_s"], elapsed);
}

TEST(Estimate, TheTimeBudgetEndsIt) {
  const nlohmann::json estimate = estimate_of(with(kSetup, "--max-time 10s"), "ssgd");
  EXPECT_EQ(estimate["train_s"], 10);
  EXPECT_GT(estimate["host_train_s"], 0);
}

}  // namespace
}  // namespace hetsgd::test
