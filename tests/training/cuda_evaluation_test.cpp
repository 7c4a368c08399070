// Measuring on a GPU against measuring on the host.
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "data/generate.hpp"
#include "support/gpu.hpp"
#include "support/gpu_memory.hpp"
#include "support/run.hpp"
#include "training/evaluation.hpp"

namespace hetsgd::test {
namespace {

void expect_alike(const Metrics& actual, const Metrics& expected) {
  const auto near = [](const char* what, std::optional<double> a, std::optional<double> e) {
    ASSERT_EQ(a.has_value(), e.has_value()) << what;
    if (e) {
      EXPECT_NEAR(*a, *e, 1e-5 * *e) << what;
    }
  };
  near("loss", actual.loss, expected.loss);
  near("p1", actual.p1, expected.p1);
  near("p3", actual.p3, expected.p3);
  near("p5", actual.p5, expected.p5);
  near("accuracy", actual.accuracy, expected.accuracy);
  near("auc", actual.auc, expected.auc);
}

struct Case {
  const char* name;
  Task task;
  Index labels;
  std::vector<std::size_t> hidden;
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
        make_model<float>({data->feature_count, data->label_count, c.hidden, c.task});
    RandomStream random(3, Purpose::test);
    std::vector<float> w(model->parameters());
    for (float& x : w) x = static_cast<float>(random.uniform(-0.5, 0.5));
    Evaluator host(*model, data, {});
    Evaluator gpu(*model, data, {.gpu = 0});
    EXPECT_EQ(host.device(), "cpu");
    EXPECT_EQ(gpu.device(), cuda_device_name(0));
    const Metrics expected = host.measure(w), actual = gpu.measure(w);
    expect_alike(actual, expected);
    EXPECT_EQ(gpu.measure(w).loss, actual.loss);  // the same bits
    Evaluator some(*model, data, {.rows = 7, .gpu = 0});
    expect_alike(some.measure(w), Evaluator(*model, data, {.rows = 7}).measure(w));
  }
}

TEST(CudaEvaluation, TheHostMeasuresWhereTheGpuIsFull) {
  GeneratorOptions options;
  options.labels = 9000;
  options.rows_test = 600;
  const DatasetPtr data = generate(options).test;
  const auto model = make_model<float>({data->feature_count, 9000, {64}, Task::multilabel});
  const auto w = initial_parameters<float>(model->shape(), 1, 0);
  std::vector<std::string> warnings;
  Evaluator evaluator(
      *model, data, {.gpu = 0, .warn = [&](const std::string& text) { warnings.push_back(text); }});
  const Metrics on_gpu = evaluator.measure(w);
  const auto device = make_cuda_device<float>(0);
  const MemoryHog hog(*device, std::size_t{1} << 20);
  const Metrics on_host = evaluator.measure(w);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("out of memory"), std::string::npos) << warnings[0];
  EXPECT_EQ(evaluator.device(), "cpu");
  EXPECT_EQ(on_host.loss, Evaluator(*model, data, {}).measure(w).loss);
  expect_alike(on_gpu, on_host);
  evaluator.measure(w);
  EXPECT_EQ(warnings.size(), 1U);
}

}  // namespace
}  // namespace hetsgd::test

int main(int argc, char** argv) { return hetsgd::test::run_gpu_tests(argc, argv); }
