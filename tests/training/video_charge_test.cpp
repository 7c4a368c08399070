// --charge lstm-video: batches of videos of unequal lengths on the simulated clock.

#include "support/run.hpp"
#include "training/simulation/charge.hpp"

namespace hetsgd::test {
namespace {

// Figure 2.9b of Yang's dissertation (2022): mean 1.219 s, deviation 0.76 s (0.75 where lengths are
// cut).
TEST(VideoCharge, HasTheMomentsOfFigure29b) {
  constexpr int kDraws = 200'000, kRanks = 8;
  double sum = 0, squares = 0, least = 1e9, most = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double time =
        video_batch_time(3, i % kRanks, static_cast<std::uint64_t>(i / kRanks)).count();
    sum += time;
    squares += time * time;
    least = std::min(least, time);
    most = std::max(most, time);
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 1.219, 0.02 * 1.219);
  EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), 0.75, 0.02 * 0.75);
  EXPECT_GE(least, 35 * 4.5e-3);
  EXPECT_LE(most, 1776 * 4.5e-3);
}

// A worker's computing is the sum of its draws, whatever the algorithm; stragglers come on top.
TEST(VideoCharge, ReplacesTheTimeOfSteps) {
  // The draws of worker 1; ssgd's batches are those of both workers.
  const auto drawn = [](std::uint64_t steps) {
    double sum = 0;
    for (std::uint64_t i = 0; i < steps; ++i) sum += video_batch_time(5, 1, i).count();
    return sum;
  };
  const Settings settings =
      "--workers 2 --charge lstm-video --batch-size 32 --max-samples 384 --evaluate-every 384 "
      "--seed 5";
  for (const char* algorithm : {"ssgd", "local-sgd"}) {
    const Record run = run_with(tiny(algorithm, {}), settings);
    ASSERT_GE(run.workers[1].report.breakdown.steps, 6U) << algorithm;
    const double expected = drawn(run.workers[1].report.breakdown.steps);
    // Updates of vectors of 35 million elements take milliseconds more.
    EXPECT_GE(compute_s(run, 1), expected) << algorithm;
    EXPECT_NEAR(compute_s(run, 1), expected, 0.05 * expected) << algorithm;
    EXPECT_EQ(run.charge["parameters"], 34'663'525);
  }
  const Record slow =
      run_with(with(tiny("ssgd", {}), settings), "--straggler kind=constant,worker=1,factor=3");
  const double expected = drawn(slow.workers[1].report.breakdown.steps);
  EXPECT_NEAR(compute_s(slow, 1), 3 * expected, 0.15 * expected);
}

}  // namespace
}  // namespace hetsgd::test
