// Measuring on a GPU against measuring on the host.

#include "core/random.hpp"
#include "data/generate.hpp"
#include "data/generate_images.hpp"
#include "graph/networks.hpp"
#include "model/mlp.hpp"
#include "model/network/graph_model.hpp"
#include "support/gpu.hpp"
#include "support/gpu_memory.hpp"
#include "support/run.hpp"
#include "training/evaluation.hpp"

namespace hetsgd::test {
namespace {

using Measured = std::vector<MetricValue>;

void expect_alike_measures(const Measured& actual, const Measured& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t m = 0; m < actual.size(); ++m) {
    ASSERT_EQ(actual[m].metric, expected[m].metric);
    EXPECT_NEAR(actual[m].value, expected[m].value, 1e-5 * expected[m].value)
        << actual[m].metric->key();
  }
}

struct Case {
  const char* name;
  Task task;
  Index labels;
  std::vector<std::uint64_t> hidden;
};

// Two chunks of rows; 9000 labels: three blocks each.
TEST(CudaEvaluation, MeasuresWhatTheHostMeasures) {
  for (const Case& c : {Case{"blocks", Task::multilabel, 9000, {6}},
                        {"few labels", Task::multilabel, 3, {5, 4}},
                        {"linear", Task::multiclass, 40, {}},
                        {"binary", Task::binary, 1, {7}},
                        {"binary linear", Task::binary, 1, {}}}) {
    SCOPED_TRACE(c.name);
    GeneratorOptions options;
    options.labels = std::max<Index>(c.labels, 2);
    options.rows_train = 1;
    options.rows_test = 1100;
    auto data = std::make_shared<Dataset>(*generate(options).test);
    data->task = c.task;
    if (c.task == Task::binary) data->label_count = 1;
    const auto model =
        make_mlp<float>({data->feature_count, data->label_count, c.task}, {.hidden = c.hidden});
    RandomStream random(3, Purpose::test);
    std::vector<float> w(model->parameters());
    for (float& x : w) x = static_cast<float>(random.uniform(-0.5, 0.5));
    Evaluator host(*model, data, {});
    Evaluator gpu(*model, data, {.gpu = 0});
    EXPECT_EQ(host.device(), "cpu");
    EXPECT_EQ(gpu.device(), cuda_device_name(0));
    const Measured expected = host.measure(w), actual = gpu.measure(w);
    expect_alike_measures(actual, expected);
    EXPECT_EQ(gpu.measure(w).back().value, actual.back().value);  // the same bits
    Evaluator some(*model, data, {.rows = 7, .gpu = 0});
    expect_alike_measures(some.measure(w), Evaluator(*model, data, {.rows = 7}).measure(w));
  }
}

// The mean of two batches of training images. Without training images the host measures.
TEST(CudaEvaluation, MakesTheStatisticsOfANetwork) {
  ImageOptions options;
  options.size = 16;
  options.rows_train = 160;
  options.rows_test = 70;
  const auto images = [&](DataPart part) {
    return std::make_shared<Dataset>(generate_images(options, part).data);
  };
  const DatasetPtr train = images(DataPart::train), test = images(DataPart::test);
  const auto model = make_graph_model<float>(find_graph("test", "resnet-20?size=16"),
                                             DataShape::of(*train, *test), {});
  const auto w = initial_parameters<float>(model->layout(), 1);
  Evaluator host(*model, test, {.statistics_of = train});
  Evaluator gpu(*model, test, {.gpu = 0, .statistics_of = train});
  const Measured expected = host.measure(w), actual = gpu.measure(w);
  EXPECT_EQ(gpu.device(), cuda_device_name(0));
  EXPECT_NEAR(actual.back().value, expected.back().value, 1e-4 * expected.back().value);
  EXPECT_EQ(gpu.measure(w).back().value, actual.back().value);  // the same bits
  EXPECT_EQ(Evaluator(*model, test, {.gpu = 0}).device(), "cpu");
}

TEST(CudaEvaluation, TheHostMeasuresWhereTheGpuIsFull) {
  GeneratorOptions options;
  options.labels = 9000;
  options.rows_test = 600;
  const DatasetPtr data = generate(options).test;
  const auto model = make_mlp<float>({data->feature_count, 9000}, {.hidden = {64}});
  const auto w = initial_parameters<float>(model->layout(), 1);
  std::vector<std::string> warnings;
  Evaluator evaluator(
      *model, data, {.gpu = 0, .warn = [&](const std::string& text) { warnings.push_back(text); }});
  const Measured on_gpu = evaluator.measure(w);
  const auto device = make_cuda_device<float>(0);
  const MemoryHog hog(*device, std::size_t{1} << 20);
  const Measured on_host = evaluator.measure(w);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("out of memory"), std::string::npos) << warnings[0];
  EXPECT_EQ(evaluator.device(), "cpu");
  EXPECT_EQ(on_host.back().value, Evaluator(*model, data, {}).measure(w).back().value);
  expect_alike_measures(on_gpu, on_host);
  evaluator.measure(w);
  EXPECT_EQ(warnings.size(), 1U);
}

}  // namespace
}  // namespace hetsgd::test
