// The identities that must hold between algorithms, clusters and numbers of workers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/compare.hpp"

namespace hetsgd::test {
namespace {

const Settings kIdentities = tiny_steps("sgd");

// ssgd with P = 1: w - lr * g, the same as sgd's fused step up to the order of summation inside the
// GEMM.
TEST(Identities, SsgdWithOneWorkerIsSgd) {
  const Record sgd = run_training(with(kIdentities, {{"algorithm", "sgd"}}));
  const Record ssgd = run_training(with(kIdentities, {{"algorithm", "ssgd"}}));
  expect_close(step_losses(sgd), step_losses(ssgd), 1e-5);
  EXPECT_EQ(sgd.curve.back().updates, ssgd.curve.back().updates);
}

// sum_i (b_i/b) * mean over part i = mean over the whole batch: the models agree, though the parts'
// losses differ.
TEST(Identities, SsgdWithPWorkersIsSgdOnTheGlobalBatch) {
  const Record sgd = run_training(with(kIdentities, {{"algorithm", "sgd"}}));
  for (const char* workers : {"2", "3", "8"}) {
    const Record ssgd = run_training(with(
        kIdentities, {{"algorithm", "ssgd"}, {"per_worker_batch", "split"}, {"workers", workers}}));
    ASSERT_EQ(sgd.curve.size(), ssgd.curve.size());
    for (std::size_t i = 0; i < sgd.curve.size(); ++i) {
      EXPECT_EQ(sgd.curve[i].samples_count, ssgd.curve[i].samples_count);
      EXPECT_NEAR(sgd.curve[i].test_loss(), ssgd.curve[i].test_loss(),
                  1e-5 * sgd.curve[i].test_loss());
    }
  }
}

// The server adds the gradients in rank order and applies the same rule: the same bits.
TEST(Identities, CentralStorageIsMirroredToTheBit) {
  const Settings base = with(
      kIdentities,
      {{"algorithm", "ssgd"}, {"workers", "3"}, {"optimizer", "momentum"}, {"momentum", "0.5"}});
  expect_same_bits(run_training(with(base, {{"storage", "mirrored"}})),
                   run_training(with(base, {{"storage", "central"}})));
}

// One worker: alpha = 1, u = sum(u), so both do K local steps and w' = w_1 + gamma (w - w_p).
TEST(Identities, ElasticWithOneWorkerIsAdaptiveWithOneWorker) {
  const Settings base = with(kIdentities, {{"mega_batch", "5"}});
  expect_same_bits(run_training(with(base, {{"algorithm", "elastic"}})),
                   run_training(with(base, {{"algorithm", "adaptive"}})));
}

// gamma 0 and K = 1: mean_i (w - lr g_i) = w - lr mean_i g_i, ssgd with b_max per worker.
TEST(Identities, ElasticMergingEveryStepIsSsgd) {
  const Settings base = with(kIdentities, {{"workers", "4"}, {"max_samples", "6400"}});
  const Record elastic =
      run_training(with(base, {{"algorithm", "elastic"}, {"mega_batch", "4"}, {"gamma", "0"}}));
  const Record ssgd =
      run_training(with(base, {{"algorithm", "ssgd"}, {"per_worker_batch", "full"}}));
  expect_close(step_losses(elastic), step_losses(ssgd), 1e-5);
}

TEST(Identities, AdaptiveOnEqualWorkersKeepsEqualBatches) {
  const Record run =
      run_training(with(kIdentities, {{"algorithm", "adaptive"},
                                      {"workers", "4"},
                                      {"mega_batch", "20"},
                                      {"profile", HETSGD_TEST_DATA "/latency_only_profile.json"}}));
  const auto events = merges(run);
  ASSERT_GE(events.size(), 5U);
  for (const auto& event : events) {
    EXPECT_EQ(event["batch_size"], nlohmann::json({32, 32, 32, 32}));
    EXPECT_EQ(event["updates"], nlohmann::json({5, 5, 5, 5}));
    EXPECT_EQ(event["weight"], nlohmann::json({0.25, 0.25, 0.25, 0.25}));
    EXPECT_FALSE(event["perturbed"].get<bool>());
  }
}

// A much slower worker gets smaller batches until all make the same number of updates. (The default
// beta of 4 overshoots and oscillates at this gap, as the paper says it may.)
TEST(Identities, AdaptiveEqualisesUpdates) {
  const Record run =
      run_training(with(kIdentities, {{"algorithm", "adaptive"},
                                      {"workers", "2"},
                                      {"mega_batch", "40"},
                                      {"max_samples", "40000"},
                                      {"speed", "1,0.5"},
                                      {"batch_size", "64"},
                                      {"beta", "0.5"},
                                      {"profile", HETSGD_TEST_DATA "/compute_only_profile.json"}}));
  const auto events = merges(run);
  const auto first = events.front()["updates"], last = events.back()["updates"];
  EXPECT_GE(first[0].get<int>() - first[1].get<int>(), 10);
  EXPECT_LE(std::abs(last[0].get<int>() - last[1].get<int>()), 2);
  EXPECT_LT(events.back()["batch_size"][1].get<int>(), 45);
  EXPECT_EQ(events.back()["batch_size"][0].get<int>(), 64);
}

// The same model, data and order of summation in both clusters.
TEST(Identities, SynchronousAlgorithmsGiveTheSameBitsOnThreadsAndSim) {
  for (const char* name : {"ssgd", "elastic"}) {
    const Settings base = with(
        kIdentities,
        {{"algorithm", name}, {"workers", "3"}, {"mega_batch", "6"}, {"evaluate_every", "576"}});
    const Record sim = run_training(with(base, {{"cluster", "sim"}}));
    const Record threads = run_training(with(base, {{"cluster", "threads"}}));
    expect_same_bits(sim, threads);
  }
}

TEST(Identities, EveryAlgorithmStartsFromTheSameModel) {
  double loss = 0;
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    if (!algorithm.info.sharded_tables_only.empty()) continue;  // other data
    for (const char* cluster : {"sim", "threads"}) {
      const Record run = run_training(
          with(kIdentities,
               {{"algorithm", algorithm.info.name}, {"cluster", cluster}, {"max_samples", "64"}}));
      if (loss == 0) loss = run.curve.front().test_loss();
      EXPECT_EQ(run.curve.front().test_loss(), loss) << algorithm.info.name << " on " << cluster;
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
