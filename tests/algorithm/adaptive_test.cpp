// adaptive and elastic: warnings about rare merges before a run, whole rounds, the period of
// scaling, the warm-up. tests/reference/numpy_reference.py checks algorithms 1 and 2 themselves.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

const Settings kAdaptive =
    tiny("adaptive", "--batch-size 16 --hidden 8 --max-samples 1600 --learning-rate 0.1");

// A mega-batch of 1,600 samples is a fifth of an epoch.
std::vector<std::string> foreseen(const Settings& more) {
  return foreseen_warnings(with(with(kAdaptive, "--train generate:tiny?rows_train=8000"), more));
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

// Equal workers make equal updates, so nothing is scaled: the run of --batch-size 8 at its rate.
TEST(Adaptive, BatchesBeginAtBatchStart) {
  const Record start = run_with(kEqual, "--mega-batch 20 --batch-start 8");
  const Record small = run_with(kEqual, "--batch-size 8 --learning-rate 0.125 --mega-batch 80");
  EXPECT_GE(step_losses(small).size(), 400U);
  expect_same_bits(start, small);
  expect_refused(with(kEqual, "--batch-start 33"),
                 "--batch-start: found 33, expected at most --batch-size 32");
}

}  // namespace
}  // namespace hetsgd::test
