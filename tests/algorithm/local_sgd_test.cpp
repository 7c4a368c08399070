// local-sgd: identities, records, timeline, and learning everywhere. Its losses with outer momentum
// are checked against tests/reference/numpy_local_sgd.py.

#include <map>

#include "support/compare.hpp"
#include "support/timeline.hpp"

namespace hetsgd::test {
namespace {

const Settings kLocalSgd = tiny_steps("local-sgd", {{"batch_size", "16"}, {"max_samples", "2560"}});

// The mean of one replica is that replica: sgd with pauses, to the bit.
TEST(LocalSgd, OneWorkerIsSgd) {
  for (const char* optimizer : {"sgd", "momentum"}) {
    const Settings base = with(kLocalSgd, {{"optimizer", optimizer}, {"learning_rate", "0.2"}});
    for (const char* steps : {"1", "8"}) {
      expect_same_bits(run_training(with(base, {{"algorithm", "sgd"}})),
                       run_training(with(base, {{"local_steps", steps}})));
    }
  }
}

// mean_i (w - lr g_i) = w - lr mean_i g_i.
TEST(LocalSgd, OneStepPerRoundIsSsgd) {
  const Settings base = with(kLocalSgd, {{"workers", "4"}});
  const Record ssgd =
      run_training(with(base, {{"algorithm", "ssgd"}, {"per_worker_batch", "full"}}));
  const Record local = run_training(with(base, {{"local_steps", "1"}}));
  expect_close(step_losses(local), step_losses(ssgd), 1e-5);
  expect_close_curves(local, ssgd, 1e-5);
}

// delta = lr mean_i g_i: momentum of the outer optimizer, with rate 1, is that of ssgd's,
// v <- mu v + lr g; up to rounding.
TEST(LocalSgd, OuterMomentumIsSsgdsMomentum) {
  const Settings base = with(kLocalSgd, {{"workers", "4"}, {"learning_rate", "0.1"}});
  for (const char* kind : {"momentum", "nesterov"}) {
    const Record ssgd = run_training(with(base, {{"algorithm", "ssgd"},
                                                 {"per_worker_batch", "full"},
                                                 {"optimizer", kind},
                                                 {"momentum", "0.8"}}));
    const Record local = run_training(
        with(base, {{"local_steps", "1"}, {"outer_optimizer", kind}, {"outer_momentum", "0.8"}}));
    expect_close(step_losses(local), step_losses(ssgd), 1e-5);
  }
}

// elastic without momentum merges once per mega-batch, 3 P batches here.
TEST(LocalSgd, IsElasticWithoutMomentum) {
  const Settings base = with(kLocalSgd, {{"workers", "3"}});
  const Record elastic =
      run_training(with(base, {{"algorithm", "elastic"}, {"mega_batch", "9"}, {"gamma", "0"}}));
  const Record local = run_training(with(base, {{"local_steps", "3"}}));
  expect_close(step_losses(local), step_losses(elastic), 1e-5);
}

// x - eta (x - mean) with momentum 0 is the interpolation of outer sgd.
TEST(LocalSgd, OuterMomentumZeroIsOuterSgd) {
  const Settings base =
      with(kLocalSgd, {{"workers", "3"}, {"local_steps", "4"}, {"outer_learning_rate", "0.7"}});
  expect_close(step_losses(run_training(base)),
               step_losses(run_training(
                   with(base, {{"outer_optimizer", "nesterov"}, {"outer_momentum", "0"}}))),
               1e-5);
}

TEST(LocalSgd, RoundsAreFixedAndTheLastOneEndsWithTheBudget) {
  const Record run = run_training(
      with(kLocalSgd, {{"workers", "2"}, {"local_steps", "7"}, {"max_samples", "640"}}));
  // 640 samples are 20 steps of two workers with 16 each: 7 + 7 + 6.
  EXPECT_EQ(run.histograms.at("local_steps"),
            (std::map<std::int64_t, std::uint64_t>{{6, 2}, {7, 4}}));
  EXPECT_EQ(run.curve.back().samples_count, 640U);
}

TEST(LocalSgd, TheSameBitsOnThreadsAndSim) {
  const Settings base = with(kLocalSgd, {{"workers", "3"}, {"outer_optimizer", "nesterov"}});
  expect_same_bits(run_training(base), run_training(with(base, {{"cluster", "threads"}})));
}

// By hand: 5 steps of 9 ms (27 on the straggler, at 135 ms), all_reduce 40, the mean 1, the copy 1:
// 177 ms a round.
TEST(LocalSgd, Timeline) {
  expect_golden("local_sgd",
                timeline(run_training(with(timeline_settings("local-sgd"),
                                           {{"local_steps", "5"}, {"max_samples", "720"}}))));
}

TEST(LocalSgd, LearnsOnBothClusters) {
  const Settings base = with(
      kLocalSgd, {{"max_samples", "24000"}, {"evaluate_every", "4000"}, {"record_steps", "false"}});
  expect_learns_everywhere(base);
  expect_learns_everywhere(with(base, {{"outer_optimizer", "nesterov"},
                                       {"outer_learning_rate", "0.7"},
                                       {"local_steps", "8"},
                                       {"straggler", "kind=uniform,min=0ms,max=1ms"}}));
}

}  // namespace
}  // namespace hetsgd::test
