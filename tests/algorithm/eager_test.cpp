// eager-SGD: identity, who contributes, records, timelines, and learning everywhere.
// Its losses are checked against tests/reference/numpy_decentralised.py.

#include "support/compare.hpp"
#include "support/timeline.hpp"

namespace hetsgd::test {
namespace {

const Settings kEager = tiny_steps("sgd");

// Every step takes the same time, whatever the nonzeros of its batch.
const Settings kEqualEager = {{"profile", HETSGD_TEST_DATA "/latency_only_profile.json"}};

Settings eager(const std::string& kind, const Settings& more) {
  return tiny_steps("eager-" + kind, more);
}

// All gradients ready: contributors = P in every round, and
//   w - lr (1/P) sum_i g_i   with the factor 1/P taken before the sum in rank order: ssgd's bits.
TEST(Eager, AllReadyIsSsgd) {
  for (const std::string kind : {"solo", "majority"}) {
    for (const std::string workers : {"2", "3", "4", "8"}) {
      for (const std::string network : {"pcie3", "ethernet-1g", "ideal"}) {
        SCOPED_TRACE(kind + ", " + workers + " workers, " + network);
        const Settings base = with(
            kEqualEager, {{"workers", workers}, {"network", network}, {"max_samples", "6400"}});
        const Record ssgd = run_training(
            with(with(kEager, base), {{"algorithm", "ssgd"}, {"per_worker_batch", "full"}}));
        const Record run = run_training(eager(kind, base));
        expect_same_bits(ssgd, run);
        const auto& contributors = run.histograms.at("contributors");
        EXPECT_EQ(contributors.rbegin()->first, std::stoi(workers));
        // At most the last round, when the workers leave, is smaller.
        EXPECT_LE(contributors.size(), 2U);
        EXPECT_EQ(run.histograms.at("staleness").size(), 1U);
      }
    }
  }
}

// P = 1: w - lr g, as sgd's fused step up to rounding. The schedule sees the same epochs.
TEST(Eager, OneWorkerIsSgd) {
  const Settings schedule = {{"schedule", "inverse_time"}, {"inverse_rate", "2"}};
  for (const std::string kind : {"solo", "majority"}) {
    for (const Settings& more : {Settings(), schedule}) {
      const Record sgd = run_training(with(with(kEager, {{"algorithm", "ssgd"}}), more));
      const Record run = run_training(eager(kind, more));
      expect_close(step_losses(sgd), step_losses(run), 1e-5);
      EXPECT_EQ(sgd.curve.back().updates, run.curve.back().updates);
    }
  }
}

// Momentum: every replica has the same state, because the background task makes every update.
TEST(Eager, AllReadyIsSsgdWithMomentum) {
  const Settings base = {{"workers", "3"}, {"optimizer", "momentum"}, {"momentum", "0.5"}};
  const Record ssgd =
      run_training(with(with(kEager, base), {{"algorithm", "ssgd"}, {"per_worker_batch", "full"}}));
  expect_same_bits(ssgd, run_training(eager("solo", base)));
}

// Solo does not wait for the straggler, whose gradients come late: with --late drop they are lost.
TEST(Eager, LateGradientsAreAddedOrDropped) {
  const Settings slow = {{"workers", "4"},
                         {"straggler", "kind=constant,worker=2,factor=5"},
                         {"profile", HETSGD_TEST_DATA "/latency_only_profile.json"}};
  const Record kept = run_training(eager("solo", slow));
  const Record dropped = run_training(eager("solo", with(slow, {{"late", "drop"}})));
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
  const Settings random = {{"workers", "8"},
                           {"straggler", "kind=uniform,min=0ms,max=50ms"},
                           {"max_samples", "25600"},
                           {"record_steps", "false"}};
  const double solo = mean_contributors(run_training(eager("solo", random)));
  const double majority = mean_contributors(run_training(eager("majority", random)));
  EXPECT_GT(majority, 4.0);
  EXPECT_LT(solo, majority - 1);
}

TEST(Eager, SoloTimeline) {
  expect_golden(
      "eager_solo",
      timeline(run_training(with(timeline_settings("eager-solo"), {{"max_samples", "240"}}))));
}

// Seed 5 draws workers 1 (the straggler, for whom all wait), 2, 2, 0.
TEST(Eager, MajorityTimeline) {
  expect_golden("eager_majority",
                timeline(run_training(with(timeline_settings("eager-majority"),
                                           {{"max_samples", "240"}, {"seed", "5"}}))));
}

TEST(Eager, LearnsOnBothClusters) {
  for (const std::string kind : {"solo", "majority"}) {
    expect_learns_everywhere(eager(kind, {{"max_samples", "24000"},
                                          {"learning_rate", "1"},
                                          {"record_steps", "false"},
                                          {"straggler", "kind=uniform,min=0ms,max=1ms"}}));
  }
}

}  // namespace
}  // namespace hetsgd::test
