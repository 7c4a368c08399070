// Models on a GPU: against the CPU, the next batch taken ahead, and memory that does not suffice.

#include <charconv>

#include "graph/networks.hpp"
#include "linalg/reference.hpp"
#include "model/network/graph_context.hpp"
#include "model/network/graph_model.hpp"
#include "model/problems.hpp"
#include "random_text.hpp"
#include "support/gpu.hpp"
#include "support/gpu_memory.hpp"

namespace hetsgd::test {
namespace {

// A problem's model and parameters on GPU 0.
struct OnGpu {
  explicit OnGpu(const Problem<float>& problem)
      : device(make_cuda_device<float>(0)),
        model(*problem.model),
        context(model.make_context(*device)),
        w(*device, problem.w.size()) {
    device->upload(w.data(), problem.w.data(), problem.w.size() * sizeof(float));
  }
  std::vector<float> parameters() const {
    std::vector<float> host(w.size());
    device->download(host.data(), w.data(), host.size() * sizeof(float));
    return host;
  }

  std::unique_ptr<Device> device;
  const Model& model;
  std::unique_ptr<ModelContext> context;
  Buffer w;
};

// Ten steps, gradients and measurements of all kinds of models.
TEST(CudaModel, FollowsTheCpuInDouble) {
  for (const Kind& kind : all_kinds()) {
    SCOPED_TRACE(kind.name);
    Problem<double> expected(kind);
    Problem<float> problem(kind);
    expected.w = {problem.w.begin(), problem.w.end()};
    OnGpu actual(problem);
    Gradient g = make_gradient(actual.model, *actual.device);
    auto G = make_gradient(*expected.model, *expected.device);
    for (std::size_t i = 0; i < 10; ++i) {
      const Batch batch = batch_of(*problem.data, 3 * i, 1 + 2 * i);
      const Batch same = batch_of(*expected.data, 3 * i, 1 + 2 * i);
      const double loss = actual.model.gradient(*actual.context, batch, actual.w.data(), g);
      const double exact = expected.model->gradient(*expected.context, same, expected.w.data(), G);
      EXPECT_NEAR(loss, exact, 1e-5 * std::max(1.0, exact));
      EXPECT_EQ(g.rows, G.rows);
      std::vector<float> flat(g.flat.size());
      actual.device->download(flat.data(), g.flat.data(), flat.size() * sizeof(float));
      expect_close(flat, {G.flat.span().begin(), G.flat.span().end()}, 1e-5, "gradient");
      actual.model.step(*actual.context, batch, 0.1F, actual.w.data());
      expected.model->step(*expected.context, same, 0.1, expected.w.data());
    }
    expect_close(actual.parameters(), expected.w, 1e-5, "parameters");
  }
}

TEST(CudaModel, RanksAsScoresSay) {
  for (const Kind& kind : all_kinds()) {
    if (kind.task == Task::binary) continue;
    SCOPED_TRACE(kind.name);
    Problem<float> problem(kind);
    OnGpu gpu(problem);
    const Batch batch = batch_of(*problem.data, 5, 40);
    std::vector<std::uint32_t> expected(40 * 5), actual(40 * 5);
    const double exact =
        problem.model->rank(*problem.context, batch, problem.w.data(), 5, expected.data());
    std::vector<float> logits(40 * problem.model->outputs());
    EXPECT_EQ(exact,
              problem.model->scores(*problem.context, batch, problem.w.data(), logits.data()));
    std::vector<std::uint32_t> top(40 * 5);
    output_kernels(*problem.device)
        .top_k(40, problem.model->outputs(), logits.data(), 5, top.data());
    EXPECT_EQ(expected, top);
    EXPECT_NEAR(gpu.model.rank(*gpu.context, batch, gpu.w.data(), 5, actual.data()), exact,
                1e-5 * exact);
    EXPECT_EQ(actual, expected);
  }
}

// The second step finds on the GPU what its batch was when the first step was computed.
TEST(CudaModel, TakesTheNextBatchAhead) {
  const Kind kind{"multilabel", Task::multilabel, {9}};
  Problem<float> problem(kind);
  auto data = std::make_shared<Dataset>(*problem.data);
  std::vector<float> values(data->sparse.value.begin(), data->sparse.value.end());
  data->sparse.value = values;
  const Batch first = batch_of(*data, 0, 20), second = batch_of(*data, 20, 20);
  OnGpu plain(problem), ahead(problem), wrong(problem);
  ahead.context->upcoming = [&] { return &second; };
  wrong.context->upcoming = [&] { return &first; };
  std::vector<double> losses;
  for (OnGpu* const gpu : {&plain, &ahead, &wrong}) {
    losses.push_back(gpu->model.step(*gpu->context, first, 0.1F, gpu->w.data()));
  }
  EXPECT_EQ(losses[1], losses[0]);
  const double loss = plain.model.step(*plain.context, second, 0.1F, plain.w.data());
  // A wrong answer changes nothing.
  EXPECT_EQ(wrong.model.step(*wrong.context, second, 0.1F, wrong.w.data()), loss);
  std::ranges::fill(values, 0.0F);
  EXPECT_EQ(ahead.model.step(*ahead.context, second, 0.1F, ahead.w.data()), loss);
  EXPECT_EQ(ahead.parameters(), plain.parameters());
  EXPECT_EQ(wrong.parameters(), plain.parameters());
  // A batch that was taken ahead serves once: now the values are zeros.
  ahead.context->upcoming = nullptr;
  EXPECT_NE(ahead.model.step(*ahead.context, second, 0.0F, ahead.w.data()),
            plain.model.step(*wrong.context, first, 0.0F, wrong.w.data()));
}

// Losses and parameters of some steps over rows of unequal lengths.
template <class Real>
struct LearntText {
  std::vector<double> losses;
  std::vector<Real> w;
  bool operator==(const LearntText&) const = default;
};

template <class Real>
LearntText<Real> learn_text(BasicDevice<Real>& device, const Graph& graph, const Dataset& text) {
  const auto model = make_graph_model<Real>(graph, DataShape::of(text), {});
  const auto context = model->make_context(device);
  const std::vector<float> first = initial_parameters<float>(model->layout(), 1);
  LearntText<Real> learnt{{}, {first.begin(), first.end()}};
  BasicBuffer<Real> w(device, learnt.w.size());
  device.upload(w.data(), learnt.w.data(), learnt.w.size() * sizeof(Real));
  for (std::size_t i = 0; i < 4; ++i) {
    Batch batch;
    batch.reset(text, {Augmentation::none, 9, 40 + i}) = {static_cast<Index>(i), 5, 3};
    learnt.losses.push_back(model->step(*context, batch, Real(0.5), w.data()));
  }
  std::vector<std::uint32_t> top(batch_of(text, 0, 6).size() * 40);
  learnt.losses.push_back(model->rank(*context, batch_of(text, 0, 6), w.data(), 1, top.data()));
  device.download(learnt.w.data(), w.data(), learnt.w.size() * sizeof(Real));
  return learnt;
}

TEST(CudaModel, NetworksOfTokensFollowTheCpuAndRepeatToTheBit) {
  const DatasetPtr text = random_text(11, {20, 33, 7, 20, 1, 40});
  for (const std::string name : {"gpt-micro?width=16&block=40&vocabulary=11&dropout=0.1",
                                 "bert-micro?width=16&block=40&vocabulary=12"}) {
    SCOPED_TRACE(name);
    const Graph graph = find_graph("test", name);
    const auto cpu = make_cpu_device<double>(1);
    const auto gpu = make_cuda_device<float>(0), again = make_cuda_device<float>(0);
    const auto expected = learn_text(*cpu, graph, *text);
    const auto found = learn_text(*gpu, graph, *text);
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(found.losses[i], expected.losses[i], 1e-5 * expected.losses[i]);
    }
    expect_close(found.w, expected.w, 1e-5, "parameters");
    EXPECT_EQ(learn_text(*again, graph, *text), found);
  }
}

// Contexts of a GPU ask for its rates by its name; those of a core do not ask.
TEST(CudaModel, NetworksPlanByTheRatesOfTheirGpu) {
  const DataShape digits{.label_count = 10, .task = Task::multiclass, .image = {1, 28, 28}};
  const auto model = make_graph_model<float>(find_graph("test", "lenet-5"), digits, {});
  std::vector<std::string> asked;
  model->plan_by([&](const std::string& gpu) {
    asked.push_back(gpu);
    return host_rates();
  });
  const auto cpu = make_cpu_device<float>(1), gpu = make_cuda_device<float>(0);
  model->make_context(*cpu);
  EXPECT_TRUE(asked.empty());
  model->make_context(*gpu);
  EXPECT_EQ(asked, std::vector{gpu->name()});
}

// The message says how much was needed, for what, and which batch fits; and it does.
TEST(CudaModel, OutOfMemoryNamesABatchThatFits) {
  const Index labels = 20'000;
  auto data = random_data(Task::multilabel, 13, labels, 1024, 5);
  const auto model = make_mlp<float>({13, labels}, {.hidden = {8}});
  const auto device = make_cuda_device<float>(0);
  Buffer w(*device, model->parameters());
  device->fill(w.size(), 0.01F, w.data());
  const auto context = model->make_context(*device);
  const auto step = [&](std::size_t size) {
    return model->step(*context, batch_of(*data, 0, size), 0.1F, w.data());
  };
  step(4);
  const MemoryHog hog(*device, std::size_t{10} << 20);
  std::size_t fits = 0;
  try {
    step(1024);
    FAIL();
  } catch (const MemoryError& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    const std::string what = error.what(), hint = error.hint();
    EXPECT_NE(what.find("cuda:0"), std::string::npos) << what;
    EXPECT_NE(what.find("MiB were needed for the logits of a batch"), std::string::npos) << what;
    EXPECT_NE(what.find("in a batch of 1024 samples"), std::string::npos) << what;
    const std::string before = "--batch-size ";
    ASSERT_EQ(hint.rfind(before, 0), 0U) << hint;
    std::from_chars(hint.data() + before.size(), hint.data() + hint.size(), fits);
  }
  ASSERT_GT(fits, 10U);  // 80 kB of scores per sample, and some slack
  ASSERT_LT(fits, 131U);
  const double loss = step(fits);
  EXPECT_TRUE(std::isfinite(loss));
}

}  // namespace
}  // namespace hetsgd::test
