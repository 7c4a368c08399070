// CROSSBOW's tuner and restarts, inside runs of sma.

#include <ranges>

#include "algorithm/parts/learner_tuner.hpp"
#include "cluster/profile.hpp"
#include "support/compare.hpp"

namespace hetsgd::test {
namespace {

const Settings kCrossbow = tiny_steps(
    "sma", "--batch-size 8 --max-samples 8000 --evaluate-every 800 --network ideal --workers 1");

const Settings kTuned = with(kCrossbow, "--learners-per-device auto --tuner-every 5");

// Every launch takes 1 ms. An iteration of m learners: the batch 9, and the two passes that average
// 1 each, all learners at once. So algorithm 2 can be followed without the program.
TEST(Crossbow, TunerFollowsTheSaturation) {
  const std::string path = HETSGD_TEST_DATA "/saturating_profile.json";
  const DeviceProfile profile = load_device_profile(path);
  for (const auto& [kind, name] :
       std::vector<std::pair<TunerKind, std::string>>{{TunerKind::literal, "literal"},
                                                      {TunerKind::stop, "stop"},
                                                      {TunerKind::robust, "robust"}}) {
    const Record run = run_with(kTuned, "--profile {} --max-samples {} --tuner {}", path,
                                kind == TunerKind::robust ? "24000" : "8000", name);
    LearnerTuner tuner({.kind = kind});
    int m = 1;
    const auto events = events_of(run, "learners");
    ASSERT_GE(events.size(), 10U);
    for (std::size_t i = 1; i < events.size(); ++i) {
      const double t = profile.throughput(m) / 11e-3;
      EXPECT_NEAR(events[i]["throughput_per_s"][0].get<double>(), t, 1e-6 * t);
      m = tuner.decide(events[i]["throughput_per_s"][0].get<double>(), m);
      EXPECT_EQ(events[i]["learners"][0], m);
      EXPECT_DOUBLE_EQ(events[i]["alpha"].get<double>(), 1.0 / std::max(2, m));
    }
    EXPECT_EQ(m, 3);
  }
}

// The card of the paper: 1.3x with two learners, hardly more with three, so a third one is tried
// and is the last. Batches differ in nonzeros, by which the throughput falls sooner or later. Then
// `stop` ends with two, and `literal` continues to fewer. By medians of windows `robust` stays.
TEST(Crossbow, TunerOnThePapersCard) {
  const Settings base = with(kTuned, "--profile titan-x-pascal --max-samples 16000");
  for (const std::string tuner : {"literal", "stop", "robust"}) {
    SCOPED_TRACE(tuner);
    const bool robust = tuner == "robust";
    const Settings more = robust ? "--max-samples 32000 --tuner-every 3" : Settings();
    std::vector<int> learners;
    for (const auto& event :
         events_of(run_with(with(base, more), "--tuner {}", tuner), "learners")) {
      learners.push_back(event["learners"][0].get<int>());
    }
    ASSERT_GE(learners.size(), robust ? 100U : 10U);
    EXPECT_EQ(*std::ranges::max_element(learners), 3);
    if (robust) {
      EXPECT_TRUE(std::ranges::is_sorted(learners));
      continue;
    }
    EXPECT_TRUE(std::ranges::equal(learners | std::views::take(3), std::vector{1, 2, 3}));
    EXPECT_GE(*std::ranges::min_element(learners), 1);
    if (tuner == "stop") {
      EXPECT_GE(learners.back(), 2);
      EXPECT_TRUE(std::ranges::is_sorted(learners.begin() + 3, learners.end(), std::greater<>()));
    }
  }
}

// All devices know k at once: alpha is 1/k, and every sample is learnt from exactly once.
TEST(Crossbow, DevicesDecideForThemselvesAndShareTheData) {
  const Settings base = with(kTuned,
                             "--workers 3 --profile titan-x-pascal --tuner literal --straggler "
                             "kind=uniform,min=0ms,max=0.1ms");
  const Record run = run_training(base);
  bool differed = false;
  for (const auto& event : events_of(run, "learners")) {
    const auto l = event["learners"].get<std::vector<int>>();
    const int k = std::accumulate(l.begin(), l.end(), 0);
    ASSERT_EQ(l.size(), 3U);
    EXPECT_DOUBLE_EQ(event["alpha"].get<double>(), 1.0 / k);
    differed = differed || l[0] != l[1] || l[1] != l[2];
  }
  EXPECT_TRUE(differed);
  std::uint64_t samples = 0;
  for (const WorkerRecord& worker : run.workers) samples += worker.samples;
  EXPECT_EQ(run.curve.back().samples_count, samples);
  std::uint64_t contributed = 0;
  for (const auto& [k, count] : run.histograms.at("contributors")) {
    contributed += static_cast<std::uint64_t>(k) * count * 8;
  }
  EXPECT_EQ(contributed, samples);
  expect_same_bits(run, run_training(base));
}

// The learning rate falls after 0.4 and 0.8 of an epoch (800 rows of 2000).
const Settings kSteps = with(kCrossbow,
                             "--workers 2 --profile v100 --schedule step --step-epochs 0.4,0.8 "
                             "--evaluate-every 160 --max-samples 2400");

// A learning rate of (nearly) 0: the accuracy is always that of the initial model.
TEST(Crossbow, RestartsWhereAccuracyHasNotRisen) {
  const Record flat = run_with(kSteps, "--learning-rate 1e-12");
  const auto restarts = events_of(flat, "restart");
  ASSERT_EQ(restarts.size(), 2U);
  EXPECT_EQ(restarts[0]["accuracy_before"], restarts[0]["accuracy_since"]);
  const Record learns = run_with(kSteps, "--max-samples 1200 --batch-size 16");
  EXPECT_TRUE(events_of(learns, "restart").empty());
  EXPECT_EQ(events_of(run_with(kSteps, "--restart always"), "restart").size(), 2U);
  EXPECT_TRUE(
      events_of(run_with(kSteps, "--learning-rate 1e-12 --restart never"), "restart").empty());
}

// Without a measurement it is unknown whether the accuracy has risen.
TEST(Crossbow, NoRestartWithoutAMeasurement) {
  const Record run = run_with(kSteps, "--learning-rate 1e-12 --evaluate-every 100000");
  EXPECT_TRUE(events_of(run, "restart").empty());
}

}  // namespace
}  // namespace hetsgd::test
