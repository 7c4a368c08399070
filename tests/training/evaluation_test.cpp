#include "training/evaluation.hpp"

#include "cluster/cluster.hpp"
#include "core/random.hpp"
#include "data/generate.hpp"
#include "data/load.hpp"
#include "graph/networks.hpp"
#include "model/mlp.hpp"
#include "model/network/graph_model.hpp"
#include "support/dataset.hpp"
#include "training/record.hpp"

namespace hetsgd {
namespace {

TEST(AreaUnderCurve, ClosedForms) {
  const std::vector<float> ascending = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(*area_under_curve(ascending, std::vector<std::uint8_t>{0, 0, 1, 1}), 1.0);
  EXPECT_DOUBLE_EQ(*area_under_curve(ascending, std::vector<std::uint8_t>{1, 1, 0, 0}), 0.0);
  EXPECT_DOUBLE_EQ(*area_under_curve(ascending, std::vector<std::uint8_t>{1, 0, 0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(*area_under_curve(ascending, std::vector<std::uint8_t>{0, 1, 0, 1}), 0.75);
  // Ties count half.
  const std::vector<float> tied = {5, 5, 5, 5};
  EXPECT_DOUBLE_EQ(*area_under_curve(tied, std::vector<std::uint8_t>{0, 1, 0, 1}), 0.5);
  // NaN ranks below all other scores, and ties with NaN.
  const float nan = std::nanf("");
  const std::vector<float> broken{nan, 0.5F, nan, -1.0F};
  EXPECT_DOUBLE_EQ(*area_under_curve(broken, std::vector<std::uint8_t>{0, 1, 0, 1}), 1.0);
  EXPECT_DOUBLE_EQ(*area_under_curve(broken, std::vector<std::uint8_t>{1, 0, 0, 0}), 0.5 / 3);
  EXPECT_FALSE(area_under_curve(ascending, std::vector<std::uint8_t>{1, 1, 1, 1}).has_value());
  EXPECT_FALSE(area_under_curve(ascending, std::vector<std::uint8_t>{0, 0, 0, 0}).has_value());
}

// Against the definition: the share of (positive, negative) pairs in the right order, ties half.
TEST(AreaUnderCurve, CountsPairs) {
  RandomStream random(7, Purpose::test);
  std::vector<float> scores;
  std::vector<std::uint8_t> truth;
  for (int i = 0; i < 300; ++i) {
    // Both signs, and both zeros, which tie.
    scores.push_back((i % 2 == 0 ? 1.0F : -1.0F) * (static_cast<float>(random.below(40)) - 20));
    truth.push_back(random.uniform() < 0.3 ? 1 : 0);
  }
  double right = 0, pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (!truth[i] || truth[j]) continue;
      ++pairs;
      right += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  EXPECT_NEAR(*area_under_curve(scores, truth), right / pairs, 1e-12);
}

struct Measured {
  explicit Measured(std::vector<MetricValue> list) : point{.metrics = std::move(list)} {}
  std::optional<double> operator[](const char* key) const { return metric_of(point, key); }
  CurvePoint point;
};

// A linear model whose score of label l is feature l: the ranking is known, so is P@k.
DatasetPtr identity_data() {
  DatasetBuilder data = test::dataset_of(Task::multilabel, 6, 6);
  // Row 0 prefers labels 5, 4, 3, ...; true {5, 3}. Row 1: 0, 1, 2, ...; true {2}. Row 2 has no
  // label.
  const std::vector<std::vector<float>> rows = {
      {1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}, {1, 1, 1, 1, 1, 1}};
  const std::vector<std::vector<Index>> labels = {{3, 5}, {2}, {}};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (Index f = 0; f < 6; ++f) test::add(data, f, rows[r][f]);
    test::end_row(data, labels[r]);
  }
  return std::move(data).share();
}

std::vector<float> identity_parameters(const Model& model) {
  std::vector<float> w(model.parameters(), 0.0F);
  const ParameterBlock& weight = model.layout().blocks.front();
  for (std::size_t i = 0; i < 6; ++i)
    w[weight.offset + i * weight.cols + i] = 1.0F;  // square: either layout
  return w;
}

TEST(Evaluator, PrecisionAtKByHand) {
  const DatasetPtr data = identity_data();
  const auto model = make_mlp<float>({.feature_count = 6, .label_count = 6}, {.hidden = {}});
  Evaluator evaluator(*model, data, {.threads = 1});
  const Measured m(evaluator.measure(identity_parameters(*model)));
  // Row 0: top 1 {5} hit; top 3 {5,4,3} two of three; top 5 two of five. Row 1: miss; {0,1,2} one;
  // one of five. Row 2, without labels: miss.
  EXPECT_DOUBLE_EQ(*m["p1"], 1.0 / 3);
  EXPECT_DOUBLE_EQ(*m["p3"], (2.0 / 3 + 1.0 / 3) / 3);
  EXPECT_DOUBLE_EQ(*m["p5"], (2.0 / 5 + 1.0 / 5) / 3);
  EXPECT_FALSE(m["accuracy"].has_value());
  // Loss: log sum exp - mean of the true scores; the row without labels adds nothing but counts.
  double lse = 0;
  for (int i = 1; i <= 6; ++i) lse += std::exp(i);
  const double expected = ((std::log(lse) - 5.0) + (std::log(lse) - 4.0)) / 3;
  EXPECT_NEAR(*m["test_loss"], expected, 1e-5);
}

TEST(Evaluator, AnInterruptionEndsAMeasurement) {
  const auto model = make_mlp<float>({.feature_count = 6, .label_count = 6}, {.hidden = {}});
  EvaluatorOptions options{.threads = 2};
  options.check = [] { throw Interrupted(15, "signal 15"); };
  Evaluator evaluator(*model, identity_data(), options);
  EXPECT_THROW(evaluator.measure(identity_parameters(*model)), Interrupted);
}

// One chunk of a network can take minutes: between its steps it is asked, too.
TEST(Evaluator, AnInterruptionEndsAPassOfANetwork) {
  const std::string clips = "generate:video?clips=8&classes=3&size=4&median=40";
  const LoadedPair data = load_pair(clips, clips, {});
  const auto model =
      make_graph_model<float>(find_graph("test", "lstm-video?size=4&units=6&classes=3"),
                              DataShape::of(*data.train.data), {});
  int calls = 0;
  EvaluatorOptions options{.threads = 1};
  options.check = [&] {
    if (++calls == 20) throw Interrupted(15, "signal 15");
  };
  Evaluator evaluator(*model, data.test.data, options);
  EXPECT_THROW(evaluator.measure(initial_parameters<float>(model->layout(), 1)), Interrupted);
}

TEST(Evaluator, ThreadsDoNotChangeABit) {
  GeneratorOptions options = generator_preset("tiny");
  const DatasetPair data = generate(options);
  const auto model = make_mlp<float>(
      {.feature_count = options.features, .label_count = options.labels}, {.hidden = {16}});
  const auto w = initial_parameters<float>(model->layout(), 1);
  const auto one = Evaluator(*model, data.test, {.threads = 1}).measure(w);
  const auto two = Evaluator(*model, data.test, {.threads = 2}).measure(w);
  ASSERT_EQ(one.size(), 4U);
  for (std::size_t m = 0; m < one.size(); ++m) {
    EXPECT_EQ(one[m].metric, two[m].metric);
    EXPECT_EQ(one[m].value, two[m].value) << one[m].metric->key();
  }
}

TEST(Evaluator, SubSamplesEvenly) {
  const DatasetPtr data = identity_data();
  const auto model = make_mlp<float>({.feature_count = 6, .label_count = 6}, {.hidden = {}});
  Evaluator evaluator(*model, data, {.rows = 1, .threads = 1});
  EXPECT_EQ(evaluator.rows(), 1U);
  EXPECT_DOUBLE_EQ(*Measured(evaluator.measure(identity_parameters(*model)))["p1"], 1.0);
}

}  // namespace
}  // namespace hetsgd
