// RNA's readings of its text: which gradients answer a probe, the scale of the learning rate,
// dropped gradients, local training. tests/reference/numpy_decentralised.py checks losses, too.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

// Every step takes the same time, whatever the nonzeros of its batch.
const Settings kRnaReadings = tiny_steps("rna", "--profile @latency_only_profile");

// Computing takes 29 to 49 ms, probes and answers 20 ms, an all_reduce 60 ms: every round leaves
// gradients behind, and the next one can begin before there are new ones.
const Settings kRnaLeftovers =
    with(kRnaReadings,
         "--network @latency_only_network --straggler kind=uniform,min=20ms,max=40ms --workers 4 "
         "--max-samples 9600");

struct BegunRounds {
  int all = 0;
  int without_fresh = 0;  // no gradient at the newest model was in it
};

// Without the last ones, which begin because workers leave.
BegunRounds begun_rounds(const Record& run) {
  std::map<int, bool> fresh;
  for (const auto& e : events_of(run, "contribution")) {
    for (const auto& age : e["staleness"]) fresh[e["round"].get<int>()] |= age == 0;
  }
  BegunRounds rounds{.all = fresh.rbegin()->first - 2};
  for (int round = 0; round < rounds.all; ++round) rounds.without_fresh += !fresh[round];
  return rounds;
}

// A leftover answers a probe at once, and while its round is reduced the others become leftovers:
// rounds follow each other with gradients that are one round old. `fresh` waits for a new one.
TEST(RnaReadings, ALeftoverBeginsNoRoundOfTheFreshTrigger) {
  const Record any = run_with(kRnaLeftovers, "--trigger any");
  EXPECT_GE(begun_rounds(any).all, 40);
  EXPECT_GE(2 * begun_rounds(any).without_fresh, begun_rounds(any).all);
  EXPECT_GT(any.histograms.at("staleness").at(1), any.histograms.at("staleness").at(0));

  const Record fresh = run_training(kRnaLeftovers);
  EXPECT_GE(begun_rounds(fresh).all, 40);
  EXPECT_EQ(begun_rounds(fresh).without_fresh, 0);
  EXPECT_GE(fresh.histograms.at("staleness").at(1), 10U);  // leftovers contribute all the same
  EXPECT_FALSE(fresh.histograms.contains("dropped"));
}

// --eta 0: a gradient that a round has passed by is dropped and counted, and so it begins none
// either, whatever the trigger. Each gradient is reduced or dropped, but those of the end.
TEST(RnaReadings, StaleGradientsAreDropped) {
  const Settings base = with(kRnaLeftovers, "--bound age --eta 0");
  const Record run = run_training(base);
  EXPECT_EQ(begun_rounds(run).without_fresh, 0);
  EXPECT_EQ(run.histograms.at("staleness").rbegin()->first, 0);
  EXPECT_EQ(run.histograms.at("dropped").begin()->first, 1);
  EXPECT_GE(observations(run, "dropped"), 10U);
  EXPECT_NEAR(static_cast<double>(observations(run, "staleness") + observations(run, "dropped")),
              9600.0 / 32, 8);
  expect_same_bits(run, run_with(base, "--trigger any"));
  EXPECT_EQ(run_with(base, "--eta 1").histograms.at("staleness").rbegin()->first, 1);
}

TEST(RnaReadings, AnEtaOfZeroNeedsTheBoundOfAge) {
  expect_refused(with(kRnaReadings, {{"eta", "0"}}),
                 "--eta: found 0 with --bound count, expected 1 or more");
}

std::vector<double> losses_of(const Record& run, int rank) {
  std::vector<double> losses;
  for (const auto& e : events_of(run, "step")) {
    if (e["rank"] == rank) losses.push_back(e["loss"].get<double>());
  }
  return losses;
}

// The share of contributors scales the learning rate and not the gradient (algorithm 5, line 5).
// One of P workers contributes, and every batch is the whole data set, so that any worker's
// gradient is the same. g_k = (1/1) g at the learning rate lr (1/P), whatever the optimizer. That
// is sgd at lr/P. (With g/P at the learning rate lr Adam, lars and clipping would be up to P times
// as fast.)
TEST(RnaReadings, TheShareOfContributorsScalesTheRate) {
  const std::string data = "generate:tiny?rows_train=32&rows_test=8";
  const Settings base = with(kRnaReadings, "--train {0} --test {0} --order sequential", data);
  const Settings one_of_four =
      "--workers 4 --probes 4 --straggler kind=constant,workers=1-3,factor=100000";
  struct Case {
    Settings settings;
    std::string lr, lr_of_one;
  };
  for (const auto& [optimizer, lr, lr_of_one] :
       std::vector<Case>{{"--optimizer momentum --weight-decay 0.001", "0.4", "0.1"},
                         {"--optimizer nesterov --momentum 0.5", "0.4", "0.1"},
                         {"--optimizer adam --beta2 0.99", "0.04", "0.01"},
                         {"--optimizer lars --momentum 0.5", "20", "5"},
                         {"--optimizer sgd --clip-norm 0.01", "0.4", "0.1"},
                         {"--optimizer sgd --clip-norm 0", "0.4", "0.1"}}) {
    SCOPED_TRACE(optimizer.front().second + ", " + optimizer.back().first);
    const Settings mine = with(base, optimizer);
    const Record rna = run_with(with(mine, one_of_four), {{"learning_rate", lr}});
    const Record sgd = run_with(mine, "--algorithm sgd --learning-rate {}", lr_of_one);
    std::vector<double> got = losses_of(rna, 0), expected = step_losses(sgd);
    ASSERT_GE(std::min(got.size(), expected.size()), 90U);
    got.resize(90);
    expected.resize(90);
    expect_close(expected, got, 1e-4);
    EXPECT_GE(rna.histograms.at("contributors").at(1), 90U);
  }
}

// A worker that waits for the next model after every gradient has nothing to train locally: a round
// follows each gradient, and the rounds are those without.
TEST(RnaReadings, LocalTrainingChangesNothingWhereEveryGradientIsReduced) {
  for (const Settings& base : {with(kRnaLeftovers, "--ahead 1"), with(kRnaReadings, "--ahead 1")}) {
    const Record without = run_training(base);
    expect_same_bits(without, run_with(base, "--local-training"));
  }
}

// Table 5.5: every step ends with a copy of 4 n bytes to the host, at the same time on all workers,
// and a round copies 4 n back to all. All are ready here, except in the last round, whose workers
// leave.
TEST(RnaReadings, StagingCostsTwoCopiesPerRound) {
  for (const std::string algorithm : {"rna", "eager-solo", "eager-majority"}) {
    SCOPED_TRACE(algorithm);
    const Settings base = with(kRnaReadings, "--algorithm {} --workers 4", algorithm);
    const Settings linked = with(base, "--profile @host_link_profile");
    const Record unstaged = run_with(linked, "--staging false");
    const Record staged = run_training(linked);
    expect_same_bits(unstaged, staged);
    EXPECT_EQ(unstaged.histograms, staged.histograms);
    const auto& contributors = staged.histograms.at("contributors");
    const double with_none =
        contributors.contains(0) ? static_cast<double>(contributors.at(0)) : 0.0;
    const double rounds = static_cast<double>(observations(staged, "contributors"));
    EXPECT_GE(rounds, 25);
    const double copy_s = 4.0 * static_cast<double>(staged.parameters) / 1e6;
    EXPECT_NEAR((staged.elapsed - unstaged.elapsed).count(), (2 * rounds - with_none) * copy_s,
                1e-6);
    // A device whose memory is the host's copies nothing.
    EXPECT_EQ(run_training(base).elapsed, unstaged.elapsed);
  }
}

// x, the snapshot, the sum; a late gradient and a new one. A worker that never waits may have eta
// gradients that are reduced, eta that wait, and one that is computed.
TEST(RnaReadings, TheEstimateOfMemoryCountsGradients) {
  const auto vectors = [](const std::string& algorithm, const Settings& settings) {
    const Configuration configuration(with({{"algorithm", algorithm}}, settings));
    return configuration.spec().algorithm->model_vectors(Plan());
  };
  EXPECT_EQ(vectors("rna", {}), 5);
  EXPECT_EQ(vectors("eager-solo", {}), 5);
  EXPECT_EQ(vectors("rna", "--ahead 3"), 3 + 6);
  EXPECT_EQ(vectors("rna", "--ahead 0"), 3 + 9);
  EXPECT_EQ(vectors("rna", "--local-training --eta 2"), 3 + 5);
}

}  // namespace
}  // namespace hetsgd::test
