// sma and easgd: identities, overlap, records, timelines, and learning everywhere. Their losses are
// checked against tests/reference/numpy_crossbow.py; the tuner and restarts in crossbow_test.cpp.

#include "cluster/devices.hpp"
#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kSma = tiny_steps("sma", "--batch-size 16 --max-samples 2560 --workers 4");

// The sum travels on another way at another time; it is the same sum.
TEST(Sma, OverlapChangesTimeAlone) {
  const std::vector<Settings> kinds = {{},
                                       "--algorithm easgd --tau 3",
                                       "--sma hierarchical --learners-per-device 3",
                                       "--learners-per-device 2 --tau 2 --optimizer momentum",
                                       "--schedule linear --decay-epochs 2 --warmup-epochs 0.3",
                                       "--schedule step --step-epochs 0.3,0.6 --restart always"};
  for (const Settings& kind : kinds) {
    Settings base = with(kSma, "--speed 1,0.7,0.4,1 --network ethernet-1g");
    base = with(with(base, kind), "--straggler kind=uniform,min=0ms,max=2ms");
    const Record with_overlap = run_with(base, "--overlap");
    const Record without = run_with(base, "--overlap false");
    expect_same_bits(with_overlap, without);
    EXPECT_LT(with_overlap.elapsed, without.elapsed);
    for (const WorkerRecord& worker : with_overlap.workers) {
      EXPECT_EQ(worker.report.breakdown.bytes_sent[0],
                without.workers[0].report.breakdown.bytes_sent[0]);
    }
  }
}

// If the sum takes less time than a batch all of it is hidden: 9 launches (9 ms) of the batch
// against 4 (P - 1)/P messages, whose only cost is a latency of 0.5 ms each.
TEST(Sma, OverlapHidesTheWholeAllReduce) {
  const Settings base = with(kSma, "--profile @latency_only_profile --network ideal");
  const Record free = run_training(base);
  const Record hidden = run_with(base, "--network ethernet-1g");
  const Record shown = run_with(base, "--network ethernet-1g --overlap false");
  EXPECT_LT((hidden.elapsed - free.elapsed).count(), 1e-3);
  EXPECT_GT((shown.elapsed - free.elapsed).count(), 10e-3);
}

// The learners of a device of several cores have cores of their own and run at the same time. They
// share only the averaging when all have ended. With one core each, in rounds if they are more than
// the cores, they have the bits of one core that runs them one after another.
TEST(Sma, LearnersAtOnceOnThreadsHaveTheBitsOfOneAfterAnother) {
  if (available_cores().size() < 2) GTEST_SKIP() << "one core";
  const std::vector<Settings> kinds = {{},
                                       "--sma hierarchical --partition iid",
                                       "--optimizer momentum --learning-rate 0.05",
                                       "--algorithm easgd --tau 2 --hidden 18,7",
                                       "--model fm --workers 2"};
  for (const Settings& kind : kinds) {
    for (const char* learners : {"2", "3"}) {
      const Settings base = with(with(kSma, "--workers 1 --max-samples 1280"),
                                 with(kind, {{"learners_per_device", learners}}));
      const Settings threads = with(base, "--cluster threads");
      const Record together = run_with(threads, "--devices cpu:2");
      expect_same_bits(together, run_with(threads, "--devices cpu:1"));
      expect_same_bits(together, run_training(base));
    }
  }
}

// Their streams are made anew whenever the tuner changes their number.
TEST(Sma, ATunedNumberOfLearnersOnThreads) {
  if (available_cores().size() < 2) GTEST_SKIP() << "one core";
  for (const char* tuner : {"literal", "robust"}) {
    const Record run =
        run_with(kSma,
                 "--cluster threads --workers 1 --devices cpu:2 --learners-per-device "
                 "auto --tuner {} --tuner-every 3 --max-samples 6400",
                 tuner);
    EXPECT_LT(run.curve.back().test_loss(), run.curve.front().test_loss());
    int most = 0;
    for (const auto& event : events_of(run, "learners")) {
      most = std::max(most, event["learners"][0].get<int>());
    }
    EXPECT_GE(most, 2);  // a second one is always tried
  }
}

TEST(Sma, RecordsLearnersMemoryAndContributors) {
  const Record run = run_with(kSma, "--workers 2 --learners-per-device 3");
  const auto event = events_of(run, "learners").at(0);
  EXPECT_EQ(event["learners"], nlohmann::json({3, 3}));
  EXPECT_DOUBLE_EQ(event["alpha"].get<double>(), 1.0 / 6);
  // A replica and its difference per learner; z, z_prev and the sum per device.
  const double vector = 4.0 * static_cast<double>(run.parameters);
  EXPECT_EQ(event["vector_bytes"], nlohmann::json({9 * vector, 9 * vector}));
  ASSERT_EQ(run.histograms.at("contributors").size(), 1U);
  EXPECT_EQ(run.histograms.at("contributors").begin()->first, 6);
  EXPECT_TRUE(run.warnings.empty());
}

// Stable below 2 (1 + mu) / (1 + k + mu): k = 4, mu = 0.9: 0.644; k = 1, mu = 0: 1; the 2 further
// learners of a device: 2 / 3. The defaults are.
TEST(Sma, WarnsOfAnUnstableAlpha) {
  const auto warnings = [](const Settings& more) {
    std::vector<std::string> found = run_with(kSma, more).warnings;
    std::erase_if(found, [](const std::string& text) { return !text.starts_with("--alpha"); });
    return found;
  };
  EXPECT_TRUE(warnings("--alpha 0.64").empty());
  ASSERT_EQ(warnings("--alpha 0.65").size(), 1U);
  EXPECT_NE(warnings("--alpha 0.65")[0].find("0.644068"), std::string::npos);
  EXPECT_TRUE(warnings("--algorithm easgd").empty());
  EXPECT_TRUE(warnings("--algorithm easgd --workers 1").empty());
  EXPECT_EQ(warnings("--algorithm easgd --workers 1 --alpha 1").size(), 1U);
  const Settings two = "--sma hierarchical --workers 2 --learners-per-device 3";
  EXPECT_TRUE(warnings(with(two, "--alpha 0.6")).empty());
  EXPECT_EQ(warnings(with(two, "--alpha 0.7")).size(), 1U);
}

TEST(Sma, RefusesTextsThatAreNoNumbers) {
  for (const char* text : {"1.5", "k"}) expect_refused(with(kSma, {{"alpha", text}}), "--alpha");
  for (const char* text : {"0", "many"}) {
    expect_refused(with(kSma, {{"learners_per_device", text}}), "--learners");
  }
}

}  // namespace
}  // namespace hetsgd::test
