// Networks of images with every algorithm on every cluster of one process.
#include <gtest/gtest.h>

#include "support/run.hpp"

namespace hetsgd::test {
namespace {

// A network of 4 and 16 filters: under sanitizers lenet-5 takes ten times as long. ThreadSanitizer
// sees a few batches of it, with which nothing has learnt yet.
Settings of_images(const std::string& algorithm, const std::string& cluster,
                   const Settings& more = {}) {
  const std::string data =
      fmt::format("generate:images?size=12&channels=1&rows_train={}&rows_test={}",
                  effort(400, 400, 64), effort(100, 100, 10));
  return with({{"model", HETSGD_TEST_DATA "/digits_network.json"},
               {"train", data},
               {"test", data},
               {"cache", "false"},
               {"algorithm", algorithm},
               {"cluster", cluster},
               {"batch_size", std::to_string(effort(16, 16, 4))},
               {"mega_batch", "8"},
               {"learning_rate", "0.05"},
               {"max_samples", std::to_string(effort(1200, 1200, 64))}},
              more);
}

TEST(GraphModels, LearnWithEveryAlgorithm) {
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    if (!algorithm.info.one_hidden_layer_only.empty()) continue;
    if (!algorithm.info.sharded_tables_only.empty()) continue;
    for (const std::string& cluster : learning_clusters()) {
      SCOPED_TRACE(algorithm.info.name + " on " + cluster);
      Settings more{{"workers", algorithm.info.max_workers > 1 ? "3" : "1"}};
      if (algorithm.info.name == "adaptive") more.push_back({"delta", "0"});
      const Record record = run_training(of_images(algorithm.info.name, cluster, more));
      EXPECT_EQ(record.status, Status::completed);
      if (kSanitizer == Sanitizer::thread) continue;
      EXPECT_LT(record.curve.back().test_loss(), record.curve.front().test_loss());
    }
  }
}

// The simulated run has the same bits for any number of host threads, with dropout and bn, too.
TEST(GraphModels, DoNotDependOnTheHostsThreads) {
  const std::string kDigits = fmt::format(
      "generate:images?size=28&channels=1&rows_train={}&rows_test=50", effort(200, 200, 50));
  const auto loss = [&](const std::string& threads) {
    return run_training(of_images("ssgd", "sim",
                                  {{"model", "lenet-001"},
                                   {"train", kDigits},
                                   {"test", kDigits},
                                   {"workers", "3"},
                                   {"max_samples", std::to_string(effort(192, 192, 24))},
                                   {"host_threads", threads}}))
        .curve.back()
        .test_loss();
  };
  EXPECT_EQ(loss("1"), loss("2"));
}

// Statistics of bn are made before each measurement: without them 100 test rows would be measured by
// those of chunks of rows.
TEST(GraphModels, MeasureNormalisedNetworks) {
  if (kSanitizer == Sanitizer::thread) GTEST_SKIP() << "learns for long, on one worker";
  const Settings settings = with(of_images("sgd", "sim"),
                                 {{"model", "resnet-20?size=8"},
                                  {"train", "generate:images?size=8&rows_train=400&rows_test=100"},
                                  {"test", "generate:images?size=8&rows_train=400&rows_test=100"},
                                  {"max_samples", "800"},
                                  {"bn_samples", "200"},
                                  {"learning_rate", "0.05"}});
  const Record record = run_training(settings);
  EXPECT_LT(record.curve.back().test_loss(), record.curve.front().test_loss());
  EXPECT_GT(record.curve.back().test_loss(), 0);
}

}  // namespace
}  // namespace hetsgd::test
