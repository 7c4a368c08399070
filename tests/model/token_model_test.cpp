// Networks of tokens as models: blocks, initial law, batches of data, refusals.
#include <malloc.h>

#include "graph/networks.hpp"
#include "graph/variants.hpp"
#include "graph/work.hpp"
#include "memory/policy.hpp"
#include "model/network/graph_model.hpp"
#include "random_text.hpp"
#include "support/effort.hpp"
#include "support/failure.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
struct TextModel {
  explicit TextModel(const std::string& network, const GraphModelOptions& options = {},
                     int cores = 1)
      : model(
            make_graph_model<Real>(find_graph("--model", network), DataShape::of(*data), options)),
        device(make_cpu_device<Real>(cores)),
        context(model->make_context(*device)),
        w(initial_parameters<Real>(model->layout(), 1)) {}

  Batch batch(const std::vector<Index>& rows) const {
    Batch result;
    result.reset(*data, {Augmentation::none, 9, 40}) = rows;
    return result;
  }
  double gradient(const Batch& batch, std::vector<Real>& g) {
    auto gradient = make_gradient(*model, *device);
    const double loss = model->gradient(*context, batch, w.data(), gradient);
    g.assign(gradient.flat.span().begin(), gradient.flat.span().end());
    return loss;
  }

  DatasetPtr data = random_text(11, {20, 33, 7, 20, 1, 40});
  std::unique_ptr<BasicModel<Real>> model;
  std::unique_ptr<BasicDevice<Real>> device;
  std::unique_ptr<BasicModelContext<Real>> context;
  std::vector<Real> w;
};

constexpr const char* kSmallGpt = "gpt-micro?width=16&block=40&vocabulary=11";

TEST(TextModel, NamesItsBlocks) {
  const TextModel<float> t("gpt-micro?width=16&layers=1&block=40&vocabulary=11&bias=1");
  std::vector<std::string> names, decays;
  for (const ParameterBlock& block : t.model->layout().blocks) {
    names.push_back(block.name);
    if (block.decays) decays.push_back(block.name);
    EXPECT_EQ(block.decays, block.rows > 1) << block.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "embed_1.tokens", "embed_1.positions", "norm_2.scale", "norm_2.shift",
                       "linear_3.weight", "linear_3.bias", "linear_5.weight", "linear_5.bias",
                       "norm_7.scale", "norm_7.shift", "linear_8.weight", "linear_8.bias",
                       "linear_10.weight", "linear_10.bias", "norm_12.scale", "norm_12.shift"}));
  const auto bert = make_graph_model<float>(find_graph("test", "bert-micro?tied=0"),
                                            data_shape(find_graph("test", "bert-micro")), {});
  EXPECT_EQ(bert->layout().blocks[2].name, "embed_1.segments");
  EXPECT_EQ(bert->layout().blocks.back().name, "softmax_26.bias");
  EXPECT_EQ(bert->layout().blocks[bert->layout().blocks.size() - 2].name, "softmax_26.weight");
}

// Within 1 %: 0.02, and 0.02 / sqrt(2 L) at the end of each branch.
TEST(TextModel, BeginsWithTheDeviationsOfItsSource) {
  const Graph graph = find_graph("test", "nanogpt-char");
  const auto model = make_graph_model<float>(graph, data_shape(graph), {});
  const std::vector<float> w = initial_parameters<float>(model->layout(), 1);
  for (const ParameterBlock& block : model->layout().blocks) {
    double sum = 0, square = 0;
    const auto n = static_cast<double>(block.size());
    for (std::size_t i = block.offset; i < block.offset + block.size(); ++i) {
      sum += static_cast<double>(w[i]);
      square += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    }
    if (block.rows == 1) {
      EXPECT_EQ(sum, n) << block.name;  // scales are 1
      continue;
    }
    const Node& node =
        *std::ranges::find(graph.nodes(), block.name.substr(0, block.name.find('.')), &Node::name);
    const bool ends_branch = node.type == NodeType::linear && node.init != 1;
    const double expected = ends_branch ? 0.02 / std::sqrt(12.0) : 0.02;
    EXPECT_NEAR(std::sqrt(square / n), expected, 0.01 * expected) << block.name;
  }
}

// The mean over the targets of the batch, whatever the rows are padded to.
TEST(TextModel, LossAndGradientAreMeansOverTargets) {
  TextModel<double> t(kSmallGpt);
  std::vector<double> all, g, sum(t.w.size());
  const double loss = t.gradient(t.batch({1, 2, 4}), all);
  EXPECT_NEAR(loss, std::log(11), 0.05);  // nothing is known at the beginning
  EXPECT_EQ(t.model->losses(t.batch({1, 2, 4})), 33U + 7 + 1);
  double expected = 0;
  for (const auto& [row, targets] : {std::pair{1U, 33.0}, {2U, 7.0}, {4U, 1.0}}) {
    expected += t.gradient(t.batch({row}), g) * targets / 41;
    for (std::size_t i = 0; i < g.size(); ++i) sum[i] += g[i] * targets / 41;
  }
  EXPECT_NEAR(loss, expected, 1e-13);
  for (std::size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(all[i], sum[i], 1e-13) << i;
}

TEST(TextModel, LearnsARowByHeart) {
  TextModel<float> t(kSmallGpt);
  const Batch batch = t.batch({5});
  double loss = 0;
  for (int i = 0; i < 300; ++i) loss = t.model->step(*t.context, batch, 0.3F, t.w.data());
  EXPECT_LT(loss, 0.1);
}

// Rows of one length are planned for others than packed rows; their losses and gradients are the
// same, and so is what a packed batch is charged for.
TEST(TextModel, PackedRowsAreThoseThatArePadded) {
  for (const char* network : {kSmallGpt, "bert-micro?width=16&block=40&vocabulary=12"}) {
    TextModel<double> padded(network);
    for (const std::string& policy : policy_names()) {
      TextModel<double> packed(network, {.lengths = Lengths::packed, .memory_policy = policy});
      std::vector<double> a, b;
      EXPECT_NEAR(packed.gradient(packed.batch({1, 2, 4, 5}), b),
                  padded.gradient(padded.batch({1, 2, 4, 5}), a), 1e-13);
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-13) << i;
    }
    TextModel<double> packed(network, {.lengths = Lengths::packed}, 2);
    const Batch batch = packed.batch({1, 2, 4, 5});
    std::vector<std::uint32_t> top(packed.model->losses(batch)), expected(top.size());
    EXPECT_EQ(packed.model->rank(*packed.context, batch, packed.w.data(), 1, top.data()),
              padded.model->rank(*padded.context, batch, padded.w.data(), 1, expected.data()));
    EXPECT_EQ(top, expected);
    const auto work = [&](const TextModel<double>& t, double steps, double frames) {
      return t.model->gradient_work({.samples = 4, .steps = steps, .frames = frames}).operations;
    };
    EXPECT_EQ(work(packed, 33, 80), work(padded, 20, 80));
    EXPECT_DOUBLE_EQ(work(packed, 33, 82), (work(padded, 20, 80) + work(padded, 21, 84)) / 2);
  }
}

// The best tokens of every target, and the sum of the losses.
TEST(TextModel, RanksTheTokensOfEveryTarget) {
  TextModel<float> t(kSmallGpt);
  const Batch batch = t.batch({5, 2});
  for (int i = 0; i < 300; ++i) t.model->step(*t.context, batch, 0.3F, t.w.data());
  std::vector<float> g;
  const double mean = t.gradient(batch, g);
  std::vector<std::uint32_t> top(47 * 2);
  EXPECT_NEAR(t.model->rank(*t.context, batch, t.w.data(), 2, top.data()), 47 * mean, 1e-3);
  std::size_t right = 0, target = 0;
  for (const Index row : {5U, 2U}) {
    const auto& tokens = t.data->tokens;
    for (std::uint32_t i = 0; i < tokens.length[row]; ++i, ++target) {
      right += top[2 * target] == tokens.token[tokens.begin[row] + i + 1] ? 1 : 0;
    }
  }
  EXPECT_GE(right, 45U);
  EXPECT_EQ(t.model->targets(batch).size(), 47U);
  EXPECT_EQ(t.model->targets(batch)[40], t.data->tokens.token[t.data->tokens.begin[2] + 1]);
  EXPECT_FALSE(t.model->ranks_in_memory());
}

// All that is allocated, in the heap or mapped.
double bytes_in_use() {
  const struct mallinfo2 all = mallinfo2();
  return static_cast<double>(all.uordblks + all.hblkhd);
}

// M(T) = a + b T + c T^2 bytes; then M(2T) - 2 M(T) = -a + 2 c T^2. One map of scores, of two heads
// at 4096 steps, has 134 MB, half as many steps a quarter. Large allocations are whole pages of
// 2 MiB.
TEST(TextModel, NoMemoryGrowsWithTheSquareOfTheSteps) {
  if (kSanitized) GTEST_SKIP() << "its allocator counts nothing";
  const auto bytes = [](std::uint32_t steps, Lengths lengths) {
    const DatasetPtr data = random_text(11, {steps, steps});
    const double before = bytes_in_use();
    const auto model = make_graph_model<float>(
        find_graph("test",
                   fmt::format("gpt-micro?layers=1&width=16&block={}&vocabulary=11", steps)),
        DataShape::of(*data), {.lengths = lengths, .memory_policy = "none"});
    const auto device = make_cpu_device<float>(1);
    const auto context = model->make_context(*device);
    const auto w = initial_parameters<float>(model->layout(), 1);
    Batch batch;
    batch.reset(*data, {}) = {0, 1};
    auto gradient = make_gradient(*model, *device);
    model->gradient(*context, batch, w.data(), gradient);
    std::vector<std::uint32_t> top(2 * std::size_t{steps});
    model->rank(*context, batch, w.data(), 1, top.data());
    return bytes_in_use() - before;
  };
  for (const Lengths lengths : {Lengths::padded, Lengths::packed}) {
    const double half = bytes(2048, lengths), whole = bytes(4096, lengths);
    EXPECT_GT(half, 3e6);
    EXPECT_LT(whole - 2 * half, 8 * 0x1p21);
  }
}

// A masked network learns from other masks in every batch, and is measured by a row's own.
TEST(TextModel, MasksTokensOfBidirectionalNetworks) {
  TextModel<double> t("bert-micro?width=16&block=40&vocabulary=12");
  EXPECT_EQ(t.model->losses(t.batch({0, 2, 4})), 3U + 1 + 1);
  const auto gradient_at = [&](std::uint64_t place) {
    Batch batch;
    batch.reset(*t.data, {Augmentation::none, 9, place}) = {0, 1, 3, 5};
    std::vector<double> g;
    t.gradient(batch, g);
    return g;
  };
  EXPECT_EQ(gradient_at(40), gradient_at(40));
  EXPECT_NE(gradient_at(40), gradient_at(44));
  std::vector<std::uint32_t> top(8), other(5);
  const double together = t.model->rank(*t.context, t.batch({0, 1}), t.w.data(), 1, top.data());
  double apart = t.model->rank(*t.context, t.batch({1}), t.w.data(), 1, other.data());
  apart += t.model->rank(*t.context, t.batch({0}), t.w.data(), 1, other.data());
  EXPECT_NEAR(together, apart, 1e-12);
  EXPECT_EQ(t.model->targets(t.batch({1, 0})).size(), 5U + 3);
}

// Also in the work that the clock is charged with.
TEST(TextModel, LearnsFromAsManyMaskedTokensAsTheShareSays) {
  const char* const network = "bert-micro?width=16&block=40&vocabulary=12";
  TextModel<double> few(network), half(network, {.mask_share = 0.5, .mask_split = {0, 0}});
  EXPECT_EQ(half.model->losses(half.batch({0, 2, 4})), 10U + 4 + 1);
  const auto work = [](const TextModel<double>& t) {
    return t.model->gradient_work({.samples = 3, .steps = 20, .frames = 60}).operations;
  };
  // 6 M V C + 8 M V for M = 10 or 3 targets of each row.
  EXPECT_DOUBLE_EQ(work(half) - work(few), 3 * (10 - 3) * 12 * (6 * 16 + 8));
  // Nothing is hidden: the network may learn to repeat what it sees.
  const Batch batch = half.batch({5});
  double loss = 0;
  for (int i = 0; i < 300; ++i) loss = half.model->step(*half.context, batch, 0.3, half.w.data());
  EXPECT_LT(loss, 0.1);
}

// Section by section of graph/work.hpp, at the steps of the batch.
TEST(TextModel, IsChargedForTheStepsOfItsBatch) {
  const TextModel<float> t(kSmallGpt);
  const auto work = [&](double rows, double steps) {
    return t.model->gradient_work({.samples = rows, .steps = steps, .frames = rows * steps});
  };
  const Graph graph = with_steps(find_graph("test", kSmallGpt), 13);
  double operations = 0;
  for (int node = 1; node < graph.size(); ++node) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      operations += node_work(graph, node, pass, 3, node > 1).operations;
    }
  }
  EXPECT_DOUBLE_EQ(work(3, 13).operations, operations);
  EXPECT_GT(work(3, 26).operations, 2 * operations);  // attention grows with the square
  EXPECT_EQ(t.model->counted_steps({.samples = 3, .steps = 13}), 13);
}

TEST(TextModel, RefusesWhatItCannotRead) {
  const DatasetPtr text = random_text(11, {20});
  const auto message = [&](const std::string& network, const GraphModelOptions& options = {}) {
    return error_of(
        [&] {
          make_graph_model<float>(find_graph("--model", network), DataShape::of(*text), options);
        },
        ExitCode::usage);
  };
  EXPECT_NE(message("gpt-micro").find("--model: found gpt-micro of 32 tokens, expected 11"),
            std::string::npos)
      << message("gpt-micro");
  EXPECT_NE(message("gpt-micro").find("?vocabulary=11"), std::string::npos);
  EXPECT_NE(message("bert-micro").find("expected 12"), std::string::npos);
  EXPECT_NE(message("gpt-micro?vocabulary=11&block=19").find("block=20"), std::string::npos);
  // Plans and charges may store scores, computations may not.
  const auto stores = [] { TextModel<float>("gpt-micro?vocabulary=11&scores=1"); };
  EXPECT_NE(error_of(stores, ExitCode::usage).find("stored scores"), std::string::npos);
  EXPECT_NE(message("lenet-5").find("reads no tokens"), std::string::npos);
  const Graph graph = find_graph("test", "gpt-micro");
  const DataShape images{.label_count = 3, .task = Task::multiclass, .image = {1, 8, 8}};
  EXPECT_NE(error_of([&] { make_graph_model<float>(graph, images, {}); }, ExitCode::usage)
                .find("which reads tokens"),
            std::string::npos);
}

// A built-in network takes the vocabulary of the data, unless its key sets one.
TEST(TextModel, TakesTheVocabularyOfTheData) {
  const DatasetPtr text = random_text(11, {20});
  const DataShape data = DataShape::of(*text);
  const auto parameters = [&](const std::string& name) {
    return find_model(name).make()->make(data)->parameters();
  };
  EXPECT_EQ(parameters("gpt-micro"),
            static_cast<std::size_t>(find_graph("test", "gpt-micro?vocabulary=11").parameters()));
  EXPECT_THROW(parameters("gpt-micro?vocabulary=12"), Error);
}

}  // namespace
}  // namespace hetsgd::test
