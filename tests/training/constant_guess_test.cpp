// The constant guess, and the warnings of runs that end no better.
#include "training/constant_guess.hpp"

#include "support/dataset.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

// Rows with these labels and one feature each.
DatasetPtr labelled(Task task, const std::vector<std::vector<Index>>& rows, Index labels) {
  DatasetBuilder data = dataset_of(task, labels, 1);
  for (const std::vector<Index>& row : rows) {
    add(data, 0, 1);
    end_row(data, row);
  }
  return std::move(data).share();
}

std::map<std::string, double> guess_of(const Dataset& train, const Dataset& test,
                                       const std::string& objective) {
  const ConstantGuess guess =
      constant_guess(find_objective<float>(objective), DataShape::of(train, test), train, test);
  std::map<std::string, double> values{{kTrainLoss, guess.train_loss}};
  for (const MetricValue& each : guess.metrics) values[each.metric->key()] = each.value;
  return values;
}

TEST(ConstantGuess, IsTheMostFrequentClassAndTheBaseRate) {
  const DatasetPtr train = labelled(Task::multiclass, {{0}, {0}, {1}, {2}}, 3);
  const DatasetPtr test = labelled(Task::multiclass, {{1}, {1}, {1}, {0}}, 3);
  const auto classes = guess_of(*train, *test, "softmax");
  EXPECT_DOUBLE_EQ(classes.at("accuracy"), 0.75);
  EXPECT_DOUBLE_EQ(classes.at("p1"), 0.75);
  EXPECT_NEAR(classes.at(kTrainLoss), 1.5 * std::log(2), 1e-12);
  EXPECT_NEAR(classes.at(kTestLoss), -0.75 * std::log(0.75) - 0.25 * std::log(0.25), 1e-12);

  const DatasetPtr clicks = labelled(Task::binary, {{0}, {}, {}, {}, {}}, 1);
  const auto binary = guess_of(*clicks, *clicks, "sigmoid");
  EXPECT_DOUBLE_EQ(binary.at("accuracy"), 0.8);
  EXPECT_DOUBLE_EQ(binary.at("auc"), 0.5);
  EXPECT_NEAR(binary.at(kTestLoss), -0.2 * std::log(0.2) - 0.8 * std::log(0.8), 1e-12);
}

// One label's share is 3/4 of two targets of 1/2; a row without labels has no loss under softmax.
TEST(ConstantGuess, KnowsSeveralLabelsOfARow) {
  const DatasetPtr data = labelled(Task::multilabel, {{0, 1}, {0}, {}}, 2);
  const double entropy = -0.75 * std::log(0.75) - 0.25 * std::log(0.25);
  EXPECT_NEAR(guess_of(*data, *data, "softmax").at(kTestLoss), entropy * 2 / 3, 1e-12);
  const double third = -std::log(1.0 / 3) / 3 - 2 * std::log(2.0 / 3) / 3;
  EXPECT_NEAR(guess_of(*data, *data, "sigmoid").at(kTestLoss), 2 * third, 1e-12);
  EXPECT_DOUBLE_EQ(guess_of(*data, *data, "softmax").at("p1"), 2.0 / 3);
}

// Targets of the rows 0 1 0 0 and 1 0: 1, 0, 0 and 0.
TEST(ConstantGuess, IsTheMostFrequentTarget) {
  DatasetBuilder rows = dataset_of(Task::tokens, 2);
  rows.tokens = {.vocabulary = 2,
                 .token = {0, 1, 0, 0, 1, 0},
                 .begin = {0, 4},
                 .length = {3, 1},
                 .bytes = {3, 1}};
  rows.targets.begin.assign(3, 0);
  const DatasetPtr data = std::move(rows).share();
  const auto guess = guess_of(*data, *data, "softmax");
  const double entropy = -0.75 * std::log(0.75) - 0.25 * std::log(0.25);
  EXPECT_DOUBLE_EQ(guess.at("accuracy"), 0.75);
  EXPECT_NEAR(guess.at(kTestLoss), entropy, 1e-12);
  EXPECT_NEAR(guess.at(kTrainLoss), entropy, 1e-12);
  EXPECT_NEAR(guess.at("perplexity"), std::exp(entropy), 1e-12);
  EXPECT_NEAR(guess.at("bits_per_byte"), entropy / std::log(2), 1e-12);
}

const Metric* metric_named(const std::string& key) {
  for (const Metric* metric : metrics()) {
    if (metric->key() == key) return metric;
  }
  return nullptr;
}

// A run with these mean training losses before each point, and these metrics at its last.
std::vector<std::string> warned(const std::vector<double>& train_losses, double accuracy,
                                double loss) {
  const Metric *right = metric_named("accuracy"), *mean_loss = metric_named(kTestLoss);
  std::vector<CurvePoint> curve(1);
  curve.front().train_loss = std::nan("");
  curve.front().metrics = {{right, 0.01}, {mean_loss, 99}};  // the initial model
  for (const double train_loss : train_losses) {
    curve.emplace_back();
    curve.back().train_loss = train_loss;
    curve.back().samples_count = 100 * curve.size();
    curve.back().metrics = {{right, accuracy}, {mean_loss, loss}};
  }
  return guess_warnings(curve, {.metrics = {{right, 0.11}, {mean_loss, 2.3}}, .train_loss = 2.4});
}

TEST(GuessWarnings, SayThatTheEndIsNoBetterAndInWhat) {
  EXPECT_TRUE(warned({2}, 0.5, 1).empty());
  EXPECT_TRUE(warned({2}, 0.11, 2.29).empty());  // one label is rare, the other one is predicted
  const std::string numbers = "accuracy 0.1 (guess 0.11), test_loss 2.3 (guess 2.3)";
  const std::vector<std::string> both = warned({2.39}, 0.1, 2.3);
  ASSERT_EQ(both.size(), 1U);
  EXPECT_NE(both[0].find("no better than a constant guess in accuracy and test_loss: " + numbers),
            std::string::npos)
      << both[0];
  EXPECT_NE(warned({2}, 0.1, 1).at(0).find("guess in accuracy: "), std::string::npos);
  EXPECT_NE(warned({2}, 0.5, 9).at(0).find("guess in test_loss: "), std::string::npos);
  EXPECT_EQ(warned({1, 1, 1, 1}, 0.1, 1).size(), 1U);
  EXPECT_EQ(warned({std::nan("")}, 0.1, 3).size(), 1U);  // no batch since the last point
  EXPECT_TRUE(warned({}, 0, 0).empty());                 // nothing was learnt, and nothing is said
  EXPECT_TRUE(warned({2}, std::nan(""), std::nan("")).empty());  // it diverged, which is said
}

TEST(GuessWarnings, SayThatTheTrainingLossRose) {
  EXPECT_EQ(warned({3.7e12, 1, 1, 1}, 0.8, 1).size(), 1U);
  EXPECT_EQ(warned({3.7e12, 2.3, 2.3, 2.3}, 0.1, 3).size(), 2U);
  EXPECT_TRUE(warned({40, 1, 1, 1}, 0.8, 1).empty());
}

TEST(GuessWarnings, StandInTheRecordOfSuchARunAndOfNoOther) {
  for (const char* algorithm : {"sgd", "asgd", "elastic"}) {
    SCOPED_TRACE(algorithm);
    const auto run = [&](const std::string& rate) {
      return run_training(tiny(algorithm, fmt::format("--learning-rate {} --max-samples 9600 "
                                                      "--mega-batch 20",
                                                      rate)));
    };
    const Record sound = run("0.5"), collapsed = run("3000");
    EXPECT_TRUE(sound.warnings.empty()) << sound.warnings.front();
    EXPECT_GE(collapsed.warnings.size(), 1U);
    EXPECT_LT(sound.curve.back().test_loss(),
              CurvePoint{.metrics = sound.constant_guess.metrics}.test_loss());
    EXPECT_GT(sound.constant_guess.train_loss, sound.curve.back().train_loss);
  }
}

}  // namespace
}  // namespace hetsgd::test
