// hogwild: identities, staleness, groups of workers, refusals, both clusters.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kHogwild = tiny_steps("hogwild");

// One worker: no other moves w, so every element gets the bits of sgd's fused step.
TEST(Hogwild, OneWorkerIsSgdToTheBitOnBothClusters) {
  for (const char* cluster : {"sim", "threads"}) {
    for (const Settings& model :
         {Settings(), Settings("--hidden 24,8"), Settings("--model linear --learning-rate 0.1"),
          Settings("--model fm --learning-rate 0.1")}) {
      const Settings base = with(with(kHogwild, model), {{"cluster", cluster}});
      const Record sgd = run_with(base, "--algorithm sgd");
      const Record hogwild = run_training(base);
      expect_same_bits(sgd, hogwild);
      EXPECT_EQ(hogwild.histograms.at("staleness"),
                (std::map<std::int64_t, std::uint64_t>{{0, 100}}));
      const bool is_sim = std::string(cluster) == "sim";  // real time is never the same
      EXPECT_TRUE(!is_sim || sgd.elapsed == hogwild.elapsed);
    }
  }
}

// P equal workers write at the same instant in rank order, and each reads at once what those before
// it have written; asgd's server handles their pushes in rank order and answers at once. So both
// apply the same gradients at the same parameters, up to w + (own - seen) against w - lr g.
TEST(Hogwild, EqualWorkersAreAsgdOnAnIdealNetwork) {
  const Settings base = with(
      kHogwild, {{"workers", "4"}, {"learning_rate", "0.1"}, {"network", "ideal"}, kEqualSteps});
  std::vector<double> hogwild = step_losses(run_training(base));
  std::vector<double> asgd = step_losses(run_with(base, "--algorithm asgd"));
  constexpr std::size_t kRounds = 22;  // of all four; the last ones may differ in number
  ASSERT_GE(hogwild.size(), 4 * kRounds);
  ASSERT_GE(asgd.size(), 4 * kRounds);
  hogwild.resize(4 * kRounds);
  asgd.resize(4 * kRounds);
  expect_close(hogwild, asgd, 1e-5);
}

// From the second round on, each of P - 1 equal other workers writes once between a worker's
// reading and its writing. In the first round only workers of lower rank do.
TEST(Hogwild, StalenessOfEqualWorkersIsOneLessThanTheirNumber) {
  const Record run = run_with(kHogwild, {{"workers", "4"}, {"learning_rate", "0.1"}, kEqualSteps});
  const auto& staleness = run.histograms.at("staleness");
  for (int late = 0; late < 3; ++late) EXPECT_EQ(staleness.at(late), 1U);
  EXPECT_EQ(staleness.at(3), observations(run, "staleness") - 3);
}

// While the slowest makes one step the others end at most floor(t_max / t_min) + 1 each.
TEST(Hogwild, StalenessIsBoundedByTheSpeeds) {
  for (const auto& [speed, ratio] : {std::pair("1,1,1,0.1", 10), std::pair("1,0.7,0.5,0.3", 3)}) {
    const Record run = run_with(
        kHogwild, {{"workers", "4"}, {"speed", speed}, {"learning_rate", "0.1"}, kEqualSteps});
    const auto& staleness = run.histograms.at("staleness");
    EXPECT_LE(staleness.rbegin()->first, 3 * (ratio + 1)) << speed;
    EXPECT_GE(staleness.rbegin()->first, 2 * ratio) << speed;
  }
}

// Replicas of their own that are never averaged are local-sgd before its first merge: equal workers
// are dealt the same batches in the same order, and both measure the mean of the replicas.
TEST(Hogwild, AModelForEachWorkerIsLocalSgdBeforeItsMerge) {
  const Settings base = tiny("hogwild", {{"workers", "4"},
                                         kEqualSteps,
                                         {"models", "worker"},
                                         {"tau", "1M"},
                                         {"max_samples", "1280"},
                                         {"evaluate_every", "1280"}});
  const Record hogwild = run_training(base);
  const Record local = run_with(tiny("local-sgd"), {{"workers", "4"},
                                                    kEqualSteps,
                                                    {"local_steps", "10"},
                                                    {"max_samples", "1280"},
                                                    {"evaluate_every", "1280"}});
  const double expected = local.curve.back().test_loss();
  EXPECT_EQ(hogwild.curve.back().samples_count, 1280U);
  EXPECT_NEAR(hogwild.curve.back().test_loss(), expected, 1e-5 * expected);
  EXPECT_EQ(hogwild.histograms.at("staleness").rbegin()->first, 0);
}

// Averages bring the models of groups together.
TEST(Hogwild, GroupsShareAModelAndAverage) {
  const Settings base = with(kHogwild, {{"workers", "4"}, {"learning_rate", "0.1"}, kEqualSteps});
  const Record pairs = run_with(base, "--models 0-1:2-3 --tau 4");
  const Record apart = run_with(base, "--models 0-1:2-3");
  EXPECT_EQ(pairs.histograms.at("staleness").rbegin()->first, 1);
  EXPECT_EQ(apart.histograms.at("staleness").rbegin()->first, 1);
  EXPECT_NE(pairs.curve.back().test_loss(), apart.curve.back().test_loss());
}

TEST(Hogwild, RefusesWhatSharesNoMemory) {
  expect_refused(with(kHogwild, {{"cluster", "threads"}, {"devices", "cuda:0"}}),
                 "--devices: found cuda:0, expected CPUs: hogwild");
  expect_refused(with(kHogwild, {{"optimizer", "momentum"}}), "--optimizer: hogwild");
  expect_refused(with(kHogwild, {{"workers", "4"}, {"models", "0-1:1-3"}}),
                 "--models: found worker 1 twice");
  expect_refused(with(kHogwild, {{"workers", "4"}, {"models", "0-2"}}),
                 "--models: worker 3 of 4 is in none");
}

// No worker waits for another. On a machine with fewer cores than workers some may come too late to
// learn, so the test does not check the work of each.
TEST(Hogwild, LearnsOnBothClusters) {
  const Settings base = with(kHogwild, {{"batch_size", "16"},
                                        {"learning_rate", "0.3"},
                                        {"max_samples", learning_samples(16'000)},
                                        {"evaluate_every", "4000"},
                                        {"tau", "10"},
                                        {"record_steps", "false"}});
  for (const std::string& cluster : learning_clusters()) {
    for (const auto& [workers, models] :
         {std::pair("2", "machine"), {"4", "machine"}, {"4", "0-1:2-3"}, {"3", "worker"}}) {
      SCOPED_TRACE(fmt::format("{}, {} workers, {}", cluster, workers, models));
      const Record run =
          run_with(base, "--cluster {} --workers {} --models {}", cluster, workers, models);
      if (kSanitized) continue;
      EXPECT_GT(metric_of(run.curve.back(), "p1").value(), 0.3);
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
