// adaptive and elastic: warnings about rare merges before a run, whole rounds, the period of
// scaling, the warm-up. tests/reference/numpy_reference.py checks algorithms 1 and 2 themselves.

#include <gmock/gmock.h>

#include "support/compare.hpp"

namespace hetsgd::test {
namespace {

const Settings kAdaptive =
    tiny("adaptive", "--batch-size 16 --hidden 8 --max-samples 1600 --learning-rate 0.1");

// The warnings before the run. A mega-batch of 1,600 samples is a fifth of an epoch.
std::vector<std::string> foreseen(const Settings& more) {
  const Configuration configuration(
      with(with(kAdaptive, "--train generate:tiny?rows_train=8000"), more));
  Training training(configuration.spec());
  training.load();
  return training.record().warnings;
}

TEST(Foreseen, MergesThatAreRare) {
  for (const std::string algorithm : {"elastic", "adaptive"}) {
    SCOPED_TRACE(algorithm);
    const Settings two = fmt::format("--workers 2 --algorithm {}", algorithm);
    EXPECT_TRUE(foreseen(with(two, "--mega-batch 124")).empty());  // a quarter of an epoch
    const auto warnings = foreseen(with(two, "--mega-batch 200"));
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_THAT(warnings[0], testing::HasSubstr("0.4 epochs"));
    EXPECT_THAT(warnings[0], testing::HasSubstr("--mega-batch 124"));
    EXPECT_TRUE(foreseen(with(two, "--mega-batch 200 --workers 1")).empty());
  }
}

const Settings kEqual =
    tiny_steps("adaptive", "--workers 4 --profile @latency_only_profile --network ideal");

std::vector<std::uint64_t> samples_of_merges(const Record& run) {
  std::vector<std::uint64_t> samples;
  for (const auto& merge : merges(run)) {
    samples.push_back(0);
    for (std::size_t i = 0; i < merge["updates"].size(); ++i) {
      samples.back() +=
          merge["updates"][i].get<std::uint64_t>() * merge["batch_size"][i].get<std::uint64_t>();
    }
  }
  return samples;
}

// Equal workers take the batches in turn, all u_i are K, so alpha_i = 1 / P, and nothing is scaled
// or perturbed. 10 batches for 4 workers: K = 3. To the bit.
TEST(Adaptive, WholeRoundsOnEqualWorkersAreElastic) {
  const Settings ten = with(kEqual, "--mega-batch 10");
  const Record elastic = run_with(ten, "--algorithm elastic");
  const Record whole = run_with(ten, "--whole-rounds");
  expect_same_bits(elastic, whole);
  EXPECT_EQ(samples_of_merges(whole), samples_of_merges(elastic));
  EXPECT_EQ(samples_of_merges(whole).front(), 12U * 32);
  EXPECT_EQ(samples_of_merges(run_training(ten)).front(), 10U * 32);
}

// Batches of b_min at lr b_min / b_max, neither scaled nor perturbed: the run of --batch-size b_min
// with all of that off. The mega-batch has the same number of samples.
TEST(Adaptive, AWarmUpIsARunOfSmallBatches) {
  const Settings base = with(kEqual, "--speed 1,0.8,0.6,0.5 --profile @compute_only_profile");
  const Record warm_up = run_with(base, "--mega-batch 20 --adaptive-warmup-epochs 1000");
  const Record small = run_with(
      base,
      "--batch-size 4 --learning-rate 0.0625 --mega-batch 160 --delta 0 --scaling-every 1000");
  EXPECT_GE(step_losses(small).size(), 800U);
  expect_same_bits(warm_up, small);
  EXPECT_EQ(warm_up.elapsed, small.elapsed);
}

// The warm-up lasts until epoch 0.8 of 2000 rows. The first merge at 1600 samples or more ends it,
// with batches of b_max; from then on the run is as without a warm-up.
TEST(Adaptive, TheWarmUpEndsWithBatchesOfBMax) {
  const Record run =
      run_with(kEqual,
               "--speed 1,0.8,0.6,0.5 --profile @compute_only_profile --mega-batch 12 "
               "--max-samples 6400 --pert-threshold 1 --adaptive-warmup-epochs 0.8");
  const auto samples = samples_of_merges(run);
  std::uint64_t begin = 0;
  std::size_t warm = 0, perturbed = 0;
  bool first = true;
  for (std::size_t k = 0; k < samples.size(); begin += samples[k++]) {
    const auto merge = merges(run)[k];
    if (begin < 1600) {
      EXPECT_EQ(merge["batch_size"], nlohmann::json({4, 4, 4, 4}));
      EXPECT_DOUBLE_EQ(merge["learning_rate"][0].get<double>(), 0.5 / 8);
      EXPECT_NE(merge["updates"][0], merge["updates"][3]);
      EXPECT_FALSE(merge["perturbed"].get<bool>());
      ++warm;
      continue;
    }
    if (first) {
      EXPECT_EQ(merge["batch_size"], nlohmann::json({32, 32, 32, 32}));
    }
    first = false;
    perturbed += merge["perturbed"].get<bool>();
  }
  EXPECT_EQ(warm, 5U);
  EXPECT_GE(perturbed, 1U);
  EXPECT_NE(merges(run).back()["batch_size"], nlohmann::json({32, 32, 32, 32}));
}

// After every third merge b_i moves by beta (u_i - mu) of that merge, within b_min and b_max.
TEST(Adaptive, ScalingEveryThirdMerge) {
  const Record run =
      run_with(kEqual,
               "--speed 1,0.8,0.6,0.5 --profile @compute_only_profile --mega-batch 16 "
               "--max-samples 8000 --beta 2 --scaling-every 3");
  const auto events = merges(run);
  ASSERT_GE(events.size(), 12U);
  std::size_t moved = 0;
  for (std::size_t k = 0; k + 1 < events.size(); ++k) {
    auto expected = events[k]["batch_size"].get<std::vector<int>>();
    if ((k + 1) % 3 == 0) {
      const auto u = events[k]["updates"].get<std::vector<int>>();
      const double mu = (u[0] + u[1] + u[2] + u[3]) / 4.0;
      for (std::size_t i = 0; i < 4; ++i) {
        const double next = expected[i] + 2 * (u[i] - mu);
        if (u[i] == mu || (u[i] > mu ? next > 32 : next < 4)) continue;
        expected[i] = static_cast<int>(std::floor(next + 0.5));
        ++moved;
      }
    }
    EXPECT_EQ(events[k + 1]["batch_size"].get<std::vector<int>>(), expected) << "after " << k;
  }
  EXPECT_GE(moved, 4U);
}

}  // namespace
}  // namespace hetsgd::test
