// How many kernels, products of cuBLAS among them, a training step gives a GPU. Those that sort the
// lookups of a batch count as two: one of them is a library's call. Copies do not count.
#include <gtest/gtest.h>

#include "cuda_kernel_language.h"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

std::uint64_t launches_of_run(const Settings& settings, int steps) {
  const std::uint64_t before = hetsgd_emulation::launches();
  run_training(with(settings, {{"max_samples", std::to_string(32 * steps)}}));
  return hetsgd_emulation::launches() - before;
}

// Both runs are measured at their begin and end.
double launches_per_step(const std::string& model, const Settings& more) {
  const Settings settings = with({{"train", "generate:ctr-tiny"},
                                  {"test", "generate:ctr-tiny"},
                                  {"min_frequency", "5"},
                                  {"cache", "false"},
                                  {"cluster", "threads"},
                                  {"devices", "cuda:0"},
                                  {"algorithm", "sgd"},
                                  {"model", model},
                                  {"embedding_dim", "4"},
                                  {"hidden", model == "deepfm" ? "4,4,4" : "4,4"},
                                  {"batch_size", "32"},
                                  {"learning_rate", "0.01"},
                                  {"evaluate_every", "1000000"},
                                  {"evaluate_samples", "32"}},
                                 more);
  return static_cast<double>(launches_of_run(settings, 12) - launches_of_run(settings, 4)) / 8;
}

// The models' own numbers of layers. 25 are the goal of all of them.
TEST(Launches, OfAStepOfClickThroughModels) {
  const auto replicated = [](const char* model) { return launches_per_step(model, {}); };
  const auto sharded = [](const char* model) {
    return launches_per_step(model, {{"tables", "sharded"}});
  };
  EXPECT_EQ(replicated("wide_deep"), 23);
  EXPECT_EQ(sharded("wide_deep"), 24);
  EXPECT_EQ(replicated("deepfm"), 30);
  EXPECT_EQ(sharded("deepfm"), 31);
  EXPECT_EQ(replicated("dcn"), 50);
  EXPECT_EQ(sharded("dcn"), 51);
}

}  // namespace
}  // namespace hetsgd::test
