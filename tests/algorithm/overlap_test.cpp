// ssgd --overlap: the same values as without it, and the times of its pieces.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kOverlap =
    tiny_steps("ssgd", "--per-worker-batch split --workers 3 --hidden 8,6 --batch-size 17");

Settings overlapped(const Settings& base, const std::string& bucket) {
  return with(base, "--overlap --bucket {}", bucket);
}

// An element is scaled by its share and summed over the ranks in rank order, in whatever bucket.
TEST(Overlap, TheBitsAreThoseWithoutOnSimAndThreads) {
  for (const char* cluster : {"sim", "threads"}) {
    for (const char* optimizer : {"sgd", "momentum", "lamb"}) {
      const Settings base =
          with(kOverlap, "--cluster {} --optimizer {} --learning-rate 0.1 --host-threads 2",
               cluster, optimizer);
      const Record off = run_training(base);
      for (const char* bucket : {"1", "2KiB", "64MiB"}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", cluster, optimizer, bucket));
        expect_same_bits(off, run_training(overlapped(base, bucket)));
      }
    }
  }
}

TEST(Overlap, EveryModelAndOneWorkerToo) {
  for (const Settings& more :
       {Settings("--model linear"), Settings("--model fm"), Settings("--workers 1")}) {
    const Settings base = with(kOverlap, more);
    expect_same_bits(run_training(base), run_training(overlapped(base, "1")));
  }
}

// A two-layer model on two workers, a bucket for each layer: 1 ms a launch, 10 us a byte. A ring of
// two sends every element once each way, so layer 1 (its weights and biases) takes A, layer 0 B.
//   without   step 9, scale 1, sum of all A + B, update 1
//   overlap   forward and layer 1: 6, scale 1; its sum, A > 4, hides layer 0: ReLU 1, products 2,
//             scale 1; then layer 0's sum B, update 1
TEST(Overlap, TheSumOfTheUpperLayerHidesTheLayerBelow) {
  const Settings base =
      tiny("ssgd",
           "--per-worker-batch split --workers 2 --batch-size 24 --max-samples 240 --record-steps "
           "--profile @latency_only_profile --network @bandwidth_only_network");
  const Record off = run_training(base), on = run_training(overlapped(base, "1"));
  const auto features = static_cast<double>(on.layer_sizes[0]);
  const auto labels = static_cast<double>(on.layer_sizes[2]);
  const double a = 4 * (16 * labels + labels) / 1e5, b = 4 * (features * 16 + 16) / 1e5;
  ASSERT_GT(a, 0.004);
  EXPECT_NEAR(off.elapsed.count(), 10 * (0.009 + 0.001 + a + b + 0.001), 1e-9);
  EXPECT_NEAR(on.elapsed.count(), 10 * (0.006 + 0.001 + a + b + 0.001), 1e-9);
  // The step's event is the whole backward pass: 6 + 1 + 3.
  for (const auto& step : events_of(on, "step")) {
    EXPECT_NEAR(step["time_s"].get<double>() - step["start_s"].get<double>(), 0.010, 1e-9);
  }
  // One bucket: nothing to overlap with, and the same times.
  EXPECT_EQ(run_training(overlapped(base, "64MiB")).elapsed, off.elapsed);
}

// Without latencies and launches a bucket costs nothing, so to overlap can only save time.
TEST(Overlap, NeverTakesLongerWhereABucketCostsNothing) {
  for (const char* hidden : {"16", "32,24", "64,8,32,8"}) {
    for (const char* workers : {"2", "5"}) {
      const Settings base =
          with(kOverlap,
               "--hidden {} --workers {} --straggler kind=constant,factor=2,worker=1 "
               "--profile @compute_only_profile --network @bandwidth_only_network",
               hidden, workers);
      const Seconds off = run_training(base).elapsed;
      const Seconds each = run_training(overlapped(base, "1")).elapsed;
      const Seconds some = run_training(overlapped(base, "3KiB")).elapsed;
      EXPECT_LT(each, off);
      EXPECT_LE(some.count(), off.count() * (1 + 1e-12));
    }
  }
}

// A scenario slows the pieces as it slows the whole: factors all of them, delays once a step.
TEST(Overlap, AStepIsSlowedOnceHoweverManyPiecesItHas) {
  for (const char* straggler : {"kind=uniform,min=1ms,max=9ms", "kind=constant,factor=3"}) {
    const Settings base = with(kOverlap, {{"straggler", straggler}});
    const Record off = run_training(base), on = run_training(overlapped(base, "1"));
    for (std::size_t r = 0; r < off.workers.size(); ++r) {
      const TimeBreakdown &a = off.workers[r].report.breakdown, &b = on.workers[r].report.breakdown;
      EXPECT_EQ(a.steps, b.steps);
      EXPECT_NEAR(a.delay_requested.count(), b.delay_requested.count(), 1e-9);
    }
  }
}

TEST(Overlap, IsOfMirroredMeansAlone) {
  for (const auto& [key, value] :
       {std::pair{"storage", "central"}, std::pair{"reduce", "adasum"}}) {
    expect_refused(with(overlapped(kOverlap, "1"), {{key, value}}),
                   fmt::format("--overlap: found --{} {}, expected --reduce mean", key, value));
  }
}

}  // namespace
}  // namespace hetsgd::test
