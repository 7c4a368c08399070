// ssp: identities, the bound on staleness, golden timeline, both clusters.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kSsp = tiny_steps("ssp",
                                 "--learning-rate 0.1 --max-samples 12800 --evaluate-every 2560 "
                                 "--workers 4 --straggler kind=uniform,min=0ms,max=1ms");

// s = 0: no worker reads before all pushes of the clock are applied, so w <- w - lr sum_m g_m, all
// at the same w. ssgd with full per-worker batches: w <- w - lr' (1/P) sum_m g_m with lr' = P lr.
// The global batch is the next P b samples in both, though arrivals may deal it to other ranks.
TEST(Ssp, StalenessZeroIsSsgdWithPTimesTheLearningRate) {
  const Record ssp = run_with(kSsp, "--staleness 0");
  const Record ssgd =
      run_with(kSsp, "--algorithm ssgd --per-worker-batch full --learning-rate 0.4");
  expect_close_curves(ssp, ssgd, 1e-5);
  // P updates per clock; those of the last clock count as the workers hear of them.
  EXPECT_EQ(ssp.curve.back().updates, 4 * ssgd.curve.back().updates - 3);
}

// A worker that continues at clock c sees min_m c_m >= c - s. So its lead is at most s, and with a
// slow worker it reaches s. While it computes, another worker moves from clock >= c - s to <= c + s
// + 1: at most (P - 1)(2 s + 1) updates between read and apply.
TEST(Ssp, LeadAndStalenessAreBounded) {
  for (const int s : {0, 1, 3}) {
    const Record run =
        run_with(kSsp, "--staleness {} --speed 1,1,1,0.05 --profile @compute_only_profile", s);
    // Once the slowest has left, no worker is behind any more.
    EXPECT_EQ(run.histograms.at("lead").rbegin()->first, s);
    EXPECT_LE(run.histograms.at("staleness").rbegin()->first, 3 * (2 * s + 1));
  }
}

// Equal workers are at most one push apart, so that a bound of 3 never acts; with a straggler it
// does.
TEST(Ssp, ABoundThatNeverActedIsSaid) {
  const Settings equal = tiny_steps("ssp", "--workers 4");
  const Record idle = run_training(equal);
  ASSERT_LT(idle.histograms.at("lead").rbegin()->first, 3);
  ASSERT_EQ(idle.remarks.size(), 1U);
  EXPECT_TRUE(
      idle.remarks.front().starts_with("--staleness 3 never acted: no worker was more than "));
  expect_same_bits(idle, run_with(equal, "--algorithm asgd"));
  EXPECT_TRUE(run_with(equal, "--speed 1,1,1,0.05").remarks.empty());
  EXPECT_TRUE(run_with(equal, "--staleness 0").remarks.empty());
}

}  // namespace
}  // namespace hetsgd::test
