// eager-SGD: identity, contributors, records, timelines, and learning everywhere.
// tests/reference/numpy_decentralised.py checks its losses.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

Settings eager(const std::string& kind, const Settings& more) {
  return tiny_steps("eager-" + kind, more);
}

// Equal workers are all ready; at most the last round, when they leave, is smaller.
TEST(Eager, AllContributeWhereAllAreReady) {
  for (const std::string kind : {"solo", "majority"}) {
    const Record run = run_training(eager(kind, "--workers 4 --profile @latency_only_profile"));
    const auto& contributors = run.histograms.at("contributors");
    EXPECT_EQ(contributors.rbegin()->first, 4);
    EXPECT_LE(contributors.size(), 2U);
    EXPECT_EQ(run.histograms.at("staleness").size(), 1U);
  }
}

// Solo does not wait for the straggler, whose gradients come late: with --late drop they are lost.
TEST(Eager, LateGradientsAreAddedOrDropped) {
  const Settings slow =
      "--workers 4 --straggler kind=constant,worker=2,factor=5 --profile @latency_only_profile";
  const Record kept = run_training(eager("solo", slow));
  const Record dropped = run_training(eager("solo", with(slow, "--late drop")));
  EXPECT_FALSE(kept.histograms.contains("dropped"));
  EXPECT_GE(kept.histograms.at("staleness").rbegin()->first, 2);
  EXPECT_GE(kept.histograms.at("contributors").at(3), 5U);
  EXPECT_GE(kept.histograms.at("contributors").at(4), 2U);
  EXPECT_EQ(dropped.histograms.at("staleness").rbegin()->first, 0);
  EXPECT_GE(dropped.histograms.at("dropped").rbegin()->first, 2);
  EXPECT_FALSE(dropped.histograms.at("contributors").contains(4));
}

// With gradients that arrive at random times, on average half of the others are there when a
// random worker is; the first one is alone, but for the late ones of rounds before.
TEST(Eager, MajorityHasMoreContributorsThanSolo) {
  const auto mean_contributors = [](const Record& run) {
    double sum = 0, count = 0;
    for (const auto& [value, n] : run.histograms.at("contributors")) {
      sum += static_cast<double>(value) * static_cast<double>(n);
      count += static_cast<double>(n);
    }
    return sum / count;
  };
  const Settings random =
      "--workers 8 --straggler kind=uniform,min=0ms,max=50ms --max-samples 25600 --record-steps "
      "false";
  const double solo = mean_contributors(run_training(eager("solo", random)));
  const double majority = mean_contributors(run_training(eager("majority", random)));
  EXPECT_GT(majority, 4.0);
  EXPECT_LT(solo, majority - 1);
}

}  // namespace
}  // namespace hetsgd::test
