// The constant guess, and the warnings of runs that end no better.
#include "training/constant_guess.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/run.hpp"

namespace hetsgd::test {
namespace {

// Rows with these labels and one feature each.
DatasetPtr labelled(Task task, const std::vector<std::vector<Index>>& rows, Index labels) {
  DatasetBuilder data;
  data.task = task;
  data.label_count = labels;
  data.feature_count = 1;
  for (const std::vector<Index>& row : rows) {
    data.sparse.index.push_back(0);
    data.sparse.value.push_back(1);
    data.sparse.begin.push_back(data.sparse.index.size());
    data.targets.index.insert(data.targets.index.end(), row.begin(), row.end());
    data.targets.begin.push_back(data.targets.index.size());
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
  EXPECT_DOUBLE_EQ(guess_of(*data, *data, "softmax").at("p1"), 1);  // of the rows with labels
}

// Targets of the rows 0 1 0 0 and 1 0: 1, 0, 0 and 0.
TEST(ConstantGuess, IsTheMostFrequentTarget) {
  DatasetBuilder rows;
  rows.task = Task::tokens;
  rows.label_count = 2;
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

const Metric* accuracy() {
  for (const Metric* metric : metrics()) {
    if (metric->key() == "accuracy") return metric;
  }
  return nullptr;
}

// A measurement after each loss, with the accuracy.
std::vector<std::string> warned(const std::vector<double>& train_losses, double value) {
  std::vector<CurvePoint> curve(1);
  curve.front().train_loss = std::nan("");
  for (const double loss : train_losses) {
    curve.emplace_back();
    curve.back().train_loss = loss;
    curve.back().samples_count = 100 * curve.size();
    curve.back().metrics = {{accuracy(), value}};
  }
  return collapse_warnings(curve, {.metrics = {{accuracy(), 0.11}}, .train_loss = 2.3});
}

TEST(Collapse, IsSaidOfALossThatStaysAtTheConstantGuess) {
  EXPECT_EQ(warned({2.3, 2.31, 2.29}, 0.1).size(), 1U);
  EXPECT_EQ(warned({9, 3, 2.35, 2.4, 2.3}, 0.11).size(), 1U);
  EXPECT_EQ(warned({2.3, std::nan(""), 2.31, 2.29}, 0.1).size(), 1U);  // no batch in between
  EXPECT_TRUE(warned({2.3, 2.3}, 0.1).empty());                        // too early to say
  EXPECT_TRUE(warned({2.3, 2.3, 2.3, 2.1}, 0.1).empty());              // it has begun to learn
  EXPECT_TRUE(warned({2.3, 2.3, 2.3}, 0.2).empty());
  EXPECT_TRUE(warned({}, 0.1).empty());
}

TEST(Collapse, IsSaidOfALossThatRose) {
  EXPECT_EQ(warned({3.7e12, 1, 1, 1}, 0.8).size(), 1U);
  EXPECT_EQ(warned({3.7e12, 2.3, 2.3, 2.3}, 0.1).size(), 2U);
  EXPECT_TRUE(warned({40, 1, 1, 1}, 0.8).empty());
}

TEST(Collapse, StandsInTheRecordOfSuchARunAndOfNoOther) {
  const auto run = [](const std::string& rate) {
    return run_training(
        tiny("sgd", fmt::format("--learning-rate {} --max-samples 9600 --mega-batch 20", rate)));
  };
  const Record sound = run("0.5"), collapsed = run("3000");
  EXPECT_TRUE(sound.warnings.empty());
  EXPECT_GE(collapsed.warnings.size(), 1U);
  EXPECT_FALSE(sound.constant_guess.metrics.empty());
  EXPECT_GT(sound.constant_guess.train_loss, sound.curve.back().train_loss);
}

}  // namespace
}  // namespace hetsgd::test
