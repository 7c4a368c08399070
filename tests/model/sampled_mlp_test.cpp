// mlp --objective sampled: the whole softmax when all labels are drawn, few rows when few are.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.hpp"
#include "model/mlp.hpp"

namespace hetsgd::test::sampled_mlp {
namespace {

constexpr Index kFeatures = 50, kLabels = 120;

DatasetPtr data() {
  DatasetBuilder data;
  data.task = Task::multilabel;
  data.feature_count = kFeatures;
  data.label_count = kLabels;
  RandomStream random(3, Purpose::test);
  for (std::size_t row = 0; row < 40; ++row) {
    for (Index f = 0; f < kFeatures; ++f) {
      if (random.below(6) != 0) continue;
      data.sparse.index.push_back(f);
      data.sparse.value.push_back(static_cast<float>(random.uniform(-1, 2)));
    }
    data.sparse.begin.push_back(data.sparse.index.size());
    for (Index l = 0; l < kLabels; ++l) {
      if (row % 9 != 4 && random.below(40) == 0) data.targets.index.push_back(l);
    }
    data.targets.begin.push_back(data.targets.index.size());
  }
  return std::move(data).share();
}

std::vector<Index> rows_of(Index begin, Index end) {
  std::vector<Index> rows;
  for (Index row = begin; row < end; ++row) rows.push_back(row);
  return rows;
}

class SampledObjective : public testing::Test {
 protected:
  std::unique_ptr<BasicModel<double>> model(ScoredLabels objective, std::uint64_t negatives) const {
    MlpOptions options;
    options.hidden = {7, 6};
    options.objective = objective;
    options.negatives = negatives;
    options.init_std = 0.5;
    return make_mlp<double>(DataShape::of(*set), options);
  }
  struct Learnt {
    double loss = 0;
    BasicGradient<double> gradient;
  };
  Learnt gradient(const BasicModel<double>& of) const {
    const auto context = of.make_context(*device);
    Learnt learnt;
    learnt.gradient = make_gradient(of, *device);
    learnt.loss = of.gradient(*context, batch, w.data(), learnt.gradient);
    return learnt;
  }

  const DatasetPtr set = data();
  const Batch batch{*set, rows_of(3, 20)};
  const std::unique_ptr<BasicDevice<double>> device = make_cpu_device<double>(1);
  const std::vector<double> w =
      initial_parameters<double>(model(ScoredLabels::full, 1)->layout(), 5, 1);
};

TEST_F(SampledObjective, AllLabelsDrawnIsTheWholeSoftmax) {
  const Learnt full = gradient(*model(ScoredLabels::full, 1));
  const Learnt all = gradient(*model(ScoredLabels::sampled, 10 * kLabels));
  EXPECT_NEAR(full.loss, all.loss, 1e-12);
  for (std::size_t i = 0; i < w.size(); ++i) {
    ASSERT_NEAR(full.gradient.flat.data()[i], all.gradient.flat.data()[i], 1e-12) << i;
  }
}

// 25 labels per sample: a list of 25 for the batch, and the true ones. Their rows alone have a
// gradient, and these are the rows that the model says it touches.
TEST_F(SampledObjective, TouchesTheRowsOfItsLabels) {
  const auto few = model(ScoredLabels::sampled, 25);
  const Learnt learnt = gradient(*few);
  const ParameterBlock& block = few->layout().blocks[4];
  ASSERT_TRUE(block.row_sparse());
  std::vector<Index> moved, truth;
  for (Index row = 0; row < kLabels; ++row) {
    const double* const g = learnt.gradient.flat.data() + block.offset + row * block.cols;
    if (std::any_of(g, g + block.cols, [](double x) { return x != 0; })) moved.push_back(row);
  }
  const auto& touched = learnt.gradient.rows[1];
  EXPECT_TRUE(std::ranges::includes(touched, moved));
  for (const Index row : batch.rows()) {
    for (const Index l : set->targets.indices(row)) truth.push_back(l);
  }
  std::ranges::sort(truth);
  truth.erase(std::unique(truth.begin(), truth.end()), truth.end());
  EXPECT_TRUE(std::ranges::includes(touched, truth));
  EXPECT_GE(touched.size(), 25U);
  EXPECT_LE(touched.size(), 25 + truth.size());
  EXPECT_LT(touched.size(), kLabels);
  std::vector<std::vector<Index>> rows;
  few->touched_rows(*few->make_context(*device), batch, rows);
  EXPECT_EQ(rows, learnt.gradient.rows);
}

// Central differences; the labels that are drawn depend on the batch alone.
TEST_F(SampledObjective, GradientIsThatOfItsLoss) {
  const auto few = model(ScoredLabels::sampled, 25);
  const Learnt learnt = gradient(*few);
  const auto context = few->make_context(*device);
  auto g = make_gradient(*few, *device);
  std::vector<double> at = w;
  constexpr double kStep = 1e-6;
  for (std::size_t i = 0; i < w.size(); i += 3) {
    at[i] = w[i] + kStep;
    const double above = few->gradient(*context, batch, at.data(), g);
    at[i] = w[i] - kStep;
    const double below = few->gradient(*context, batch, at.data(), g);
    at[i] = w[i];
    ASSERT_NEAR(learnt.gradient.flat.data()[i], (above - below) / (2 * kStep), 1e-7) << i;
  }
}

TEST_F(SampledObjective, AStepIsItsGradientTimesTheRate) {
  const auto few = model(ScoredLabels::sampled, 25);
  const Learnt learnt = gradient(*few);
  std::vector<double> moved = w;
  EXPECT_EQ(few->step(*few->make_context(*device), batch, 0.1, moved.data()), learnt.loss);
  for (std::size_t i = 0; i < w.size(); ++i) {
    ASSERT_NEAR(moved[i], w[i] - 0.1 * learnt.gradient.flat.data()[i], 1e-14) << i;
  }
}

// Another batch draws others; what is measured is the whole softmax, whatever was drawn.
TEST_F(SampledObjective, DrawsByTheBatchAndMeasuresAllLabels) {
  const auto few = model(ScoredLabels::sampled, 25), full = model(ScoredLabels::full, 1);
  const auto context = few->make_context(*device);
  std::vector<std::vector<Index>> one, other, again;
  few->touched_rows(*context, batch, one);
  few->touched_rows(*context, Batch(*set, rows_of(4, 21)), other);
  few->touched_rows(*context, batch, again);
  EXPECT_EQ(one, again);
  EXPECT_NE(one[1], other[1]);
  std::vector<double> scores(batch.size() * kLabels), of_full(scores.size());
  EXPECT_EQ(few->scores(*context, batch, w.data(), scores.data()),
            full->scores(*full->make_context(*device), batch, w.data(), of_full.data()));
  EXPECT_EQ(scores, of_full);
}

}  // namespace
}  // namespace hetsgd::test::sampled_mlp
