// Every model with every algorithm.
#include <gtest/gtest.h>

#include "support/run.hpp"

namespace hetsgd::test {
namespace {

class EveryModel : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& model : models()) names.push_back(model.info.name);
                           return names;
                         }()),
                         [](const auto& each) { return each.param; });

TEST_P(EveryModel, LearnsWithEveryAlgorithm) {
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    SCOPED_TRACE(algorithm.info.name);
    if (!algorithm.info.one_hidden_layer_only.empty() && GetParam() != "mlp") continue;
    const Record record = run_training({{"model", GetParam()},
                                        {"algorithm", algorithm.info.name},
                                        {"train", "generate:tiny"},
                                        {"test", "generate:tiny"},
                                        {"cache", "false"},
                                        {"workers", algorithm.info.max_workers > 1 ? "3" : "1"},
                                        {"batch_size", "16"},
                                        {"mega_batch", "12"},
                                        {"learning_rate", "0.3"},
                                        {"max_samples", "1920"},
                                        {"evaluate_samples", "200"}});
    EXPECT_EQ(record.status, Status::completed);
    EXPECT_LT(record.curve.back().test_loss(), record.curve.front().test_loss());
  }
}

// The clock charges the model of the full size.
TEST_P(EveryModel, TakesTheChargeOfAFullSizeModel) {
  const Settings settings = {{"model", GetParam()},      {"train", "generate:tiny"},
                             {"test", "generate:tiny"},  {"cache", "false"},
                             {"batch_size", "16"},       {"max_samples", "320"},
                             {"evaluate_samples", "100"}};
  const Record plain = run_training(settings);
  const Record charged = run_training(with(settings, {{"charge", "amazon670k"}}));
  EXPECT_GT(charged.elapsed, 10 * plain.elapsed);
  EXPECT_EQ(charged.curve.back().test_loss(), plain.curve.back().test_loss());
  EXPECT_EQ(charged.charge["features"], 135'909);
}

}  // namespace
}  // namespace hetsgd::test
