// mlp --objective sampled and hashed: the whole softmax when all labels are chosen, few rows when
// few are. With hashed also the choice of labels, and the age of the tables.

#include "core/random.hpp"
#include "model/mlp.hpp"
#include "support/dataset.hpp"

namespace hetsgd::test::sampled_mlp {
namespace {

constexpr Index kFeatures = 50, kLabels = 120;

DatasetPtr data() {
  DatasetBuilder data = dataset_of(Task::multilabel, kLabels, kFeatures);
  RandomStream random(3, Purpose::test);
  for (std::size_t row = 0; row < 40; ++row) {
    for (Index f = 0; f < kFeatures; ++f) {
      if (random.below(6) != 0) continue;
      add(data, f, random.uniform(-1, 2));
    }
    for (Index l = 0; l < kLabels; ++l) {
      if (row % 9 != 4 && random.below(40) == 0) data.targets.index.push_back(l);
    }
    end_row(data);
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
    options.labels.objective = objective;
    options.labels.negatives = negatives;
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
  for (const ScoredLabels objective : {ScoredLabels::sampled, ScoredLabels::hashed}) {
    const Learnt all = gradient(*model(objective, 10 * kLabels));
    EXPECT_NEAR(full.loss, all.loss, 1e-12);
    for (std::size_t i = 0; i < w.size(); ++i) {
      ASSERT_NEAR(full.gradient.flat.data()[i], all.gradient.flat.data()[i], 1e-12) << i;
    }
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

// Central differences; the labels that are drawn depend on the batch alone, and codes do not change
// with weights that move so little.
class ChosenLabels : public SampledObjective, public testing::WithParamInterface<ScoredLabels> {};
INSTANTIATE_TEST_SUITE_P(All, ChosenLabels,
                         testing::Values(ScoredLabels::sampled, ScoredLabels::hashed));

TEST_P(ChosenLabels, GradientIsThatOfItsLoss) {
  const auto few = model(GetParam(), 25);
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

TEST_P(ChosenLabels, AStepIsItsGradientTimesTheRate) {
  const auto few = model(GetParam(), 25);
  const Learnt learnt = gradient(*few);
  std::vector<double> moved = w;
  EXPECT_EQ(few->step(*few->make_context(*device), batch, 0.1, moved.data()), learnt.loss);
  for (std::size_t i = 0; i < w.size(); ++i) {
    ASSERT_NEAR(moved[i], w[i] - 0.1 * learnt.gradient.flat.data()[i], 1e-14) << i;
  }
}

// Another batch draws other labels; a measurement uses the whole softmax, whatever was drawn.
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

class HashedSoftmax : public SampledObjective {
 protected:
  static constexpr std::size_t kInputs = 16, kLeast = 30;
  // Rows W[l] with numbers of any sign, activations with zeros.
  HashedSoftmax() : W(kLabels * kInputs), A(batch.size() * kInputs) {
    RandomStream random(8, Purpose::test);
    for (float& each : W) each = static_cast<float>(random.uniform(-1, 1));
    for (float& each : A) each = static_cast<float>(std::max(0.0, random.uniform(-1, 1)));
  }
  static HashedLabels options(double rehash) {
    return {.hash = {.codes = 2, .tables = 6}, .bucket = 0, .rehash = rehash};
  }
  BasicHashedSoftmax<float> softmax(double rehash) {
    return {options(rehash), kLabels, kInputs, kLeast, kernels<BasicHostCores<float>>(*cores)};
  }
  std::vector<std::uint32_t> labels(BasicHashedSoftmax<float>& of, const std::vector<float>& by) {
    of.choose(batch, A.data(), by.data());
    const auto all = of.labels_of(batch).value();
    return {all.begin(), all.end()};
  }

  const std::unique_ptr<Device> cores = make_cpu_device<float>(2);
  std::vector<float> W, A;
};

// 17 samples of 30 labels each, true ones among them.
TEST_F(HashedSoftmax, HasTheTrueLabelsAndNoMoreThanItWasTold) {
  auto one = softmax(50);
  const auto& chosen = one.choose(batch, A.data(), W.data());
  EXPECT_EQ(chosen.pairs(), batch.size() * kLeast);
  for (const Index row : batch.rows()) {
    for (const Index l : set->targets.indices(row)) {
      EXPECT_TRUE(std::ranges::binary_search(chosen.labels(), l));
    }
  }
  EXPECT_FALSE(one.labels_of(Batch(*set, rows_of(0, 3))));
}

// A row that is a sample's own activations wins every bin that its sample wins, so it shares all of
// its buckets.
TEST_F(HashedSoftmax, FindsTheRowThatLooksLikeTheSample) {
  constexpr std::size_t kLike = 77;
  std::copy_n(A.begin(), kInputs, &W[kLike * kInputs]);
  for (float& each : std::span(W).subspan(kLike * kInputs, kInputs)) each *= 3;
  LabelHash hash(options(50).hash_of(kInputs), kInputs, label_seed(batch.rows()), 0);
  std::vector<std::uint32_t> of_row(6), of_sample(6);
  hash.rows(1, &W[kLike * kInputs], of_row.data(), 6, 1);
  hash.queries(1, A.data(), of_sample.data(), 6, 1);
  auto one = softmax(50);
  const bool shares = std::ranges::mismatch(of_row, of_sample).in1 != of_row.begin();
  ASSERT_TRUE(shares);
  EXPECT_TRUE(std::ranges::binary_search(labels(one, W), kLike));
}

TEST_F(HashedSoftmax, TablesAreThoseOfTheWeightsAtTheLastRehash) {
  std::vector<float> later(W.rbegin(), W.rend());
  auto one = softmax(2), fresh = softmax(2);
  const auto first = labels(one, W);
  EXPECT_EQ(labels(one, later), first);
  const auto third = labels(one, later);
  EXPECT_NE(third, first);
  EXPECT_EQ(third, labels(fresh, later));
}

TEST_F(HashedSoftmax, TheSameOnAnyNumberOfCores) {
  auto two = softmax(50);
  const auto one_core = make_cpu_device<float>(1);
  BasicHashedSoftmax<float> one(options(50), kLabels, kInputs, kLeast,
                                kernels<BasicHostCores<float>>(*one_core));
  EXPECT_EQ(labels(one, W), labels(two, W));
}

// A batch that has not been learned from may touch every row.
TEST_F(SampledObjective, HashedTouchesWhatItHasLearnedFrom) {
  const auto few = model(ScoredLabels::hashed, 25);
  const auto context = few->make_context(*device);
  std::vector<std::vector<Index>> before, after;
  few->touched_rows(*context, batch, before);
  EXPECT_EQ(before[1].size(), kLabels);
  auto g = make_gradient(*few, *device);
  few->gradient(*context, batch, w.data(), g);
  few->touched_rows(*context, batch, after);
  EXPECT_EQ(after, g.rows);
  EXPECT_LT(after[1].size(), kLabels);
}

}  // namespace
}  // namespace hetsgd::test::sampled_mlp
