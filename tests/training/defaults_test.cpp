// Defaults of every model: its own learning rate and initial law make it learn.

#include "support/effort.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

struct Default {
  std::string model;
  Settings data;
  std::string samples;  // as few as tell
  bool is_quick = true;
};

Settings of(const std::string& data) { return fmt::format("--train {0} --test {0}", data); }

Settings images(int size, int channels) {
  return of(
      fmt::format("generate:images?size={}&channels={}&noise=0.3&rows_train=400&rows_test=100",
                  size, channels));
}

const Settings kSparse = of("generate:tiny"), kClicks = of("generate:ctr-tiny?scale=0.1");
const Settings kVideo =
    of("generate:video?clips=200&clips_test=60&classes=3&size=4&median=8&shortest=2&longest=20");

class Defaults : public ::testing::TestWithParam<Default> {};

INSTANTIATE_TEST_SUITE_P(
    Models, Defaults,
    ::testing::Values(Default{"mlp", kSparse, "2400"}, Default{"linear", kSparse, "2400"},
                      Default{"fm", kSparse, "4800"}, Default{"wide_deep", kClicks, "60000"},
                      Default{"deepfm", kClicks, "60000"}, Default{"dcn", kClicks, "60000"},
                      Default{"lstm-video?size=4&units=8&dense=8&classes=3", kVideo, "2400"},
                      Default{"lenet-5", images(28, 1), "1280", false},
                      Default{"lenet-001", images(28, 1), "1280", false},
                      Default{"lenet-002", images(28, 1), "640", false},
                      Default{"resnet-20?size=8", images(8, 3), "320", false}),
    [](const auto& each) {
      std::string name = each.param.model.substr(0, each.param.model.find('?'));
      std::ranges::replace(name, '-', '_');
      return name;
    });

// Neither the learning rate nor an initial law is given.
void expect_better_than_a_guess(const Default& model, const Settings& more) {
  const Record record = run_with(with(model.data, more),
                                 "--model {} --hidden 32 --cache false --batch-size "
                                 "32 --evaluate-every 10000 --max-samples {}",
                                 model.model, model.samples);
  const CurvePoint guess{.metrics = record.constant_guess.metrics};
  EXPECT_LT(record.curve.back().test_loss(), guess.test_loss());
  // For clicks this is the AUC, where a guess has 0.5.
  EXPECT_GT(accuracy_of(record.curve.back()), accuracy_of(guess));
}

TEST_P(Defaults, AreBetterThanAConstantGuess) {
  for (int seed = 1; seed <= effort(10, 1, 1); ++seed) {
    SCOPED_TRACE(seed);
    expect_better_than_a_guess(GetParam(), fmt::format("--algorithm sgd --seed {}", seed));
  }
}

// Its gradients are stale by three others; its default is a quarter of the model's.
TEST_P(Defaults, HoldWithoutWaiting) {
  if (!GetParam().is_quick) GTEST_SKIP() << "a network of images learns too slowly for a test";
  for (int seed = 1; seed <= effort(3, 1, 1); ++seed) {
    SCOPED_TRACE(seed);
    expect_better_than_a_guess(GetParam(),
                               fmt::format("--algorithm asgd --workers 4 --seed {}", seed));
  }
}

std::string rate_at(const std::string& algorithm, int workers, const Settings& more = {}) {
  const Settings base{{"algorithm", algorithm}, {"workers", fmt::format("{}", workers)}};
  return fmt::format("{}", Configuration(with(base, more)).options.learning_rate);
}

TEST(DefaultRate, IsTheModelsTimesTheFactorOfTheMethod) {
  for (const RegisteredAlgorithm& each : algorithms()) {
    const std::string& name = each.info.name;
    SCOPED_TRACE(name);
    const std::string one = rate_at(name, 1);
    if (each.info.max_workers < 4) continue;
    EXPECT_EQ(rate_at(name, 4) == one, !each.info.rate_over_workers);
    EXPECT_EQ(rate_at(name, 4, "--learning-rate 3"), "3");
  }
  EXPECT_EQ(rate_at("asgd", 8), "0.125");
  EXPECT_EQ(rate_at("asgd", 4, "--model deepfm"), "0.005");
  EXPECT_EQ(rate_at("ssgd", 8), "1");
  EXPECT_EQ(rate_at("slide", 8), "0.0001");
}

// As many updates as samples allow, each stale by seven others.
TEST(DefaultRate, LearnsWithEightWorkersOfEveryMethod) {
  for (const RegisteredAlgorithm& each : algorithms()) {
    const AlgorithmInfo& info = each.info;
    if (info.max_workers < 8 || !info.one_hidden_layer_only.empty()) continue;
    SCOPED_TRACE(info.name);
    const bool sharded = !info.sharded_tables_only.empty();
    const Settings base =
        with({{"algorithm", info.name}},
             "--workers 8 --batch-size 32 --hidden 32 --cache false "
             "--evaluate-every 100000 --profile {} --tables {}",
             info.cpu_only.empty() ? "v100" : "xeon-e5-2650v4", sharded ? "sharded" : "replicated");
    std::vector<Settings> data = {with(kClicks, "--model deepfm --max-samples 30000")};
    if (!sharded) data.push_back(with(kSparse, "--max-samples 16000"));
    for (const Settings& rows : data) {
      const Record record = run_with(base, rows);
      const CurvePoint guess{.metrics = record.constant_guess.metrics};
      EXPECT_LT(record.curve.back().test_loss(), guess.test_loss());
      EXPECT_GT(accuracy_of(record.curve.back()), accuracy_of(guess));
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
