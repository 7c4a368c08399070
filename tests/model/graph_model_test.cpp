// Networks as models: blocks, gradients, steps, scores, plans, statistics.
#include "model/network/graph_model.hpp"

#include "core/error.hpp"
#include "core/random.hpp"
#include "graph/graph_file.hpp"
#include "graph/networks.hpp"
#include "graph/work.hpp"
#include "model/network/graph_context.hpp"
#include "support/dataset.hpp"

namespace hetsgd::test {
namespace {

DatasetPtr random_images(const ImageShape& shape, Index classes, std::size_t rows) {
  DatasetBuilder data = dataset_of(Task::multiclass, classes);
  data.images.channels = shape.channels;
  data.images.height = shape.height;
  data.images.width = shape.width;
  data.images.mean.assign(shape.channels, 127.5F);
  data.images.deviation.assign(shape.channels, 75.0F);
  RandomStream random(3, Purpose::test);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      data.images.pixel.push_back(static_cast<std::uint8_t>(random.below(256)));
    }
    end_row(data, {static_cast<Index>(random.below(classes))});
  }
  return std::move(data).share();
}

// A residual block with bn, and dropout where it is asked for.
Graph small_network(bool normalised, double dropout = 0) {
  std::string nodes =
      R"({"name": "a", "type": "conv", "channels": 4, "kernel": 3, "padding": 1, "bias": true},)";
  if (normalised) nodes += R"({"name": "n", "type": "bn"},)";
  nodes += R"({"name": "r", "type": "relu"},
    {"name": "b", "type": "conv", "channels": 4, "kernel": 3, "padding": 1},)";
  if (normalised) nodes += R"({"name": "last", "type": "bn"},)";
  nodes += std::string(R"({"name": "sum", "type": "add", "from": ["r", ")") +
           (normalised ? "last" : "b") +
           R"("]}, {"name": "p", "type": "pool", "kernel": 2, "stride": 2},)";
  if (dropout > 0) nodes += fmt::format(R"({{"name": "d", "type": "dropout", "p": {}}},)", dropout);
  nodes += R"({"name": "f", "type": "fc", "units": 5}, {"type": "softmax"})";
  return parse_graph("small", R"({"name": "small", "input": [2,6,6], "nodes": [)" + nodes + "]}");
}

template <class Real>
struct Trained {
  explicit Trained(const Graph& graph, const GraphModelOptions& options = {}, int cores = 1)
      : data(random_images({2, 6, 6}, 5, 40)),
        model(make_graph_model<Real>(graph, DataShape::of(*data), options)),
        device(make_cpu_device<Real>(cores)),
        context(model->make_context(*device)),
        w(initial_parameters<Real>(model->layout(), 1)) {}

  Batch batch(std::size_t rows, std::uint64_t first = 0) const {
    Batch result;
    std::vector<Index>& chosen = result.reset(*data, {Augmentation::none, 9, first});
    for (std::size_t i = 0; i < rows; ++i) chosen.push_back(static_cast<Index>((7 * i + 3) % 40));
    return result;
  }
  std::vector<Real> gradient(const Batch& batch) {
    auto g = make_gradient(*model, *device);
    loss = model->gradient(*context, batch, w.data(), g);
    return {g.flat.span().begin(), g.flat.span().end()};
  }
  double score(const Batch& batch, std::vector<Real>& logits) {
    logits.resize(batch.size() * 5);
    return model->scores(*context, batch, w.data(), logits.data()) /
           static_cast<double>(batch.size());
  }

  DatasetPtr data;
  std::unique_ptr<BasicModel<Real>> model;
  std::unique_ptr<BasicDevice<Real>> device;
  std::unique_ptr<BasicModelContext<Real>> context;
  std::vector<Real> w;
  double loss = 0;
};

TEST(GraphModel, EveryBuiltInNetworkCreditsThePaperThatPublishedIt) {
  const std::map<std::string, std::string> papers = {
      {"alexnet", "Krizhevsky"}, {"bert", "Devlin"}, {"gpt", "Radford"},     {"gpt2", "Radford"},
      {"inception", "Szegedy"},  {"lenet", "LeCun"}, {"lstm", "Hochreiter"}, {"nanogpt", "Radford"},
      {"resnet", "He et al."},   {"vgg", "Simonyan"}};
  for (const NetworkInfo& info : builtin_networks()) {
    const std::string& paper = papers.at(info.name.substr(0, info.name.find('-')));
    EXPECT_TRUE(find_model(info.name).info.paper.starts_with(paper)) << info.name;
  }
  EXPECT_EQ(find_model("resnet-20?size=16").info.paper, find_model("resnet-20").info.paper);
}

TEST(GraphModel, EveryBuiltInNetworkHasItsParametersAndStandsInTheRegistry) {
  for (const NetworkInfo& info : builtin_networks()) {
    const Graph graph = find_graph("--model", info.name);
    const ModelInfo& of_model = find_model(info.name).info;
    EXPECT_EQ(of_model.reads_tokens, graph.reads_tokens()) << info.name;
    EXPECT_NE(of_model.reads_images, graph.reads_tokens()) << info.name;
    EXPECT_NE(of_model.title, info.name);
    const DataShape data = data_shape(graph);
    const auto model = make_graph_model<float>(graph, data, {});
    EXPECT_EQ(model->parameters(), static_cast<std::size_t>(graph.parameters())) << info.name;
    const auto inputs = graph.reads_tokens() ? static_cast<std::uint64_t>(graph.node(0).tokens)
                                             : std::uint64_t{data.image.size()};
    EXPECT_EQ(model->layer_sizes().front(), inputs);
    EXPECT_EQ(model->layer_sizes().back(), graph.reads_tokens() ? inputs : data.label_count);
    EXPECT_NEAR(model->gradient_work({.samples = 1}).operations / multiply_adds(graph), 6, 0.7)
        << info.name;
  }
  EXPECT_EQ(find_model("resnet-32?size=16").info.name, "resnet-32?size=16");
  EXPECT_THROW(find_model("resnet-32?bogus=1"), Error);
  EXPECT_THROW(find_model("lenet-55"), Error);
}

// A network's defaults follow from its nodes, so that its file trains as its name does.
TEST(GraphModel, DefaultsFollowFromTheNodes) {
  for (const char* name : {"lenet-5", "lenet-001", "lenet-002"}) {
    const Graph graph = find_graph("--model", name);
    const Graph again = parse_graph("file", to_json_text(graph));
    EXPECT_EQ(usual_filters(again), FilterLaw::init) << name;
  }
  for (const char* name : {"vgg-16", "alexnet", "resnet-20?bn=0"}) {
    EXPECT_EQ(usual_filters(find_graph("--model", name)), FilterLaw::he) << name;
  }
  const auto factory = find_model("lenet-002").make();
  OptionSet options;
  factory->declare(options);
  EXPECT_EQ(options.to_json()["conv_init"], "init");
}

// A score needs a fraction of a step's memory, and no policy.
TEST(GraphModel, ScoresInTheMemoryOfTheForwardPass) {
  const Graph graph = find_graph("--model", "resnet-50");
  const PlannedBatch step(graph, {find_policy("test", "liveness"), {}}, 8, host_rates()),
      score(graph, 8);
  EXPECT_LT(score.plan.peak_bytes, step.plan.peak_bytes / 5);
  Trained<float> cramped(small_network(true), {.activation_memory = 1000}), t(small_network(true));
  std::vector<float> in_little, logits;
  cramped.score(cramped.batch(8), in_little);
  t.score(t.batch(8), logits);
  EXPECT_EQ(in_little, logits);
  EXPECT_THROW(cramped.gradient(cramped.batch(8)), Error);
}

// If batch sizes vary, plans that have not been used for long are dropped.
TEST(GraphModel, KeepsFewPlans) {
  const Graph graph = small_network(true);
  const DatasetPtr data = random_images({2, 6, 6}, 5, 40);
  const auto device = make_cpu_device<float>(1);
  GraphContext<float> context(*device, graph, {find_policy("test", "dymem"), {}}, host_rates());
  const auto executor = [&](std::size_t samples) {
    const Batch batch(*data, std::vector<Index>(samples));
    return &context.executor(BatchPart(batch, 0, samples));
  };
  const auto* const first = executor(1);
  for (std::size_t samples = 1; samples <= 2 * kPlansKept; ++samples) {
    executor(samples);
    EXPECT_EQ(executor(1), first);  // used in between, it stays
    EXPECT_EQ(context.plans(), std::min(samples, kPlansKept));
  }
}

TEST(GraphModel, RefusesDataThatItDoesNotFit) {
  const Graph graph = small_network(false);
  DataShape data{.label_count = 5, .task = Task::multiclass, .image = {2, 6, 6}};
  EXPECT_NO_THROW(make_graph_model<float>(graph, data, {}));
  data.image = {1, 6, 6};
  EXPECT_THROW(make_graph_model<float>(graph, data, {}), Error);
  data.image = {2, 6, 6};
  data.label_count = 6;
  EXPECT_THROW(make_graph_model<float>(graph, data, {}), Error);
}

// A plan moves the same maps over a link of a tenth of the bandwidth in ten times the time.
TEST(GraphModel, PlansAreMadeByTheRatesOfTheDevice) {
  const Graph graph = find_graph("--model", "lenet-5");
  const PlanRules rules{find_policy("test", "vdnn-all"), {}};
  DeviceRates slow = host_rates();
  slow.link_bytes_per_s /= 10;
  const PlannedBatch fast_link(graph, rules, 8, host_rates()), slow_link(graph, rules, 8, slow);
  EXPECT_GT(fast_link.plan.fetched_bytes, 0U);
  EXPECT_EQ(slow_link.plan.fetched_bytes, fast_link.plan.fetched_bytes);
  EXPECT_NEAR(slow_link.plan.transfer_s / fast_link.plan.transfer_s, 10, 1e-9);
}

// He's law for filters, unless they shall begin as dense layers do.
TEST(GraphModel, BeginsAsHeAndOthersDo) {
  const DataShape data{.label_count = 5, .task = Task::multiclass, .image = {2, 6, 6}};
  const auto model = make_graph_model<float>(small_network(true), data, {});
  const auto w = initial_parameters<float>(model->layout(), 1);
  for (const ParameterBlock& block : model->layout().blocks) {
    if (block.name.ends_with("weight")) {
      if (block.name.starts_with("f.")) continue;
      EXPECT_NEAR(block.init_std, std::sqrt(2 / (0.77374 * static_cast<double>(block.cols))), 1e-5);
      continue;
    }
    for (std::size_t i = 0; i < block.size(); ++i) {
      EXPECT_EQ(w[block.offset + i], block.name.ends_with("scale") ? 1 : 0) << block.name;
    }
  }
  const auto dense =
      make_graph_model<float>(small_network(false), data, {.conv_init = FilterLaw::init});
  EXPECT_DOUBLE_EQ(dense->layout().blocks.front().init_std, 1 / std::sqrt(18));
}

TEST(GraphModel, AStepIsTheGradientsAndFloatFollowsDouble) {
  for (const bool normalised : {false, true}) {
    Trained<double> exact(small_network(normalised, 0.25));
    Trained<float> t(small_network(normalised, 0.25));
    const Batch batch = t.batch(9, 100), same = exact.batch(9, 100);
    const auto g = exact.gradient(same);
    const auto h = t.gradient(batch);
    auto stepped = exact.w;
    EXPECT_EQ(exact.model->step(*exact.context, same, 0.3, stepped.data()), exact.loss);
    for (std::size_t i = 0; i < g.size(); ++i) {
      ASSERT_NEAR(stepped[i], exact.w[i] - 0.3 * g[i], 1e-14);
      ASSERT_NEAR(static_cast<double>(h[i]), g[i], 2e-5);
    }
    EXPECT_NEAR(t.loss, exact.loss, 1e-5);
  }
}

TEST(GraphModel, HasTheSameBitsUnderEveryPolicyAndNumberOfCores) {
  Trained<float> t(small_network(true, 0.5));
  const auto expected = t.gradient(t.batch(8));
  for (const std::string policy : {"none", "dymem", "vdnn-all", "superneurons"}) {
    Trained<float> other(small_network(true, 0.5), {.memory_policy = policy}, 2);
    EXPECT_EQ(other.gradient(other.batch(8)), expected) << policy;
  }
  Trained<float> cramped(small_network(true), {.activation_memory = 1000});
  EXPECT_THROW(cramped.gradient(cramped.batch(8)), Error);
  Trained<float> roomy(small_network(true, 0.5), {.activation_memory = 1 << 20});
  EXPECT_EQ(roomy.gradient(roomy.batch(8)), expected);
}

// Batches of any size after each other, in one context.
TEST(GraphModel, AGradientDoesNotDependOnTheOneBefore) {
  Trained<float> t(small_network(true)), fresh(small_network(true));
  for (const std::size_t rows : {7UL, 1UL, 20UL, 7UL}) t.gradient(t.batch(rows));
  EXPECT_EQ(t.gradient(t.batch(20)), fresh.gradient(fresh.batch(20)));
}

TEST(GraphModel, DropsByTheBatchsPlaceInTheSequence) {
  for (const bool normalised : {false, true}) {
    Trained<float> t(small_network(normalised, 0.5));
    const auto first = t.gradient(t.batch(8, 0));
    EXPECT_NE(t.gradient(t.batch(8, 8)), first);
    EXPECT_EQ(t.gradient(t.batch(8, 0)), first);
    std::vector<float> logits, again;  // nothing is dropped in a score
    t.score(t.batch(8, 0), logits);
    t.score(t.batch(8, 8), again);
    EXPECT_EQ(logits, again);
  }
}

// Scores by the statistics of the same batch are those by the batch; a sample's score then does not
// depend on the others.
TEST(GraphModel, ScoresByStatistics) {
  Trained<double> t(small_network(true));
  const Batch batch = t.batch(30);
  std::vector<double> by_batch, by_statistics, alone;
  const double loss = t.score(batch, by_batch);
  t.gradient(batch);
  EXPECT_NEAR(t.loss, loss, 1e-12);
  std::vector<double> statistics(t.model->statistics().numbers);
  ASSERT_EQ(statistics.size(), 4U * 4);
  t.model->estimate_statistics(*t.context, batch, t.w.data(), statistics.data());
  t.context->statistics = statistics;
  EXPECT_NEAR(t.score(batch, by_statistics), loss, 1e-12);
  for (std::size_t i = 0; i < by_batch.size(); ++i) {
    EXPECT_NEAR(by_statistics[i], by_batch[i], 1e-12);
  }
  t.score(t.batch(1), alone);
  EXPECT_EQ(alone, std::vector<double>(by_statistics.begin(), by_statistics.begin() + 5));
}

}  // namespace
}  // namespace hetsgd::test
