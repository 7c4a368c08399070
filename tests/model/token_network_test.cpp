// Networks of tokens against PyTorch and against central differences, and what holds of them
// exactly.
#include "token_network.hpp"

#include <fstream>

#include "carried_out.hpp"

namespace hetsgd::test {
namespace {

// fixtures/pytorch_transformer.py has made the file. Fused steps, rows of unequal lengths.
TEST(TokenNetwork, TakesTheStepsOfPyTorch) {
  std::ifstream file(HETSGD_MODEL_FIXTURES "/pytorch_transformer.json");
  for (const nlohmann::json& each : nlohmann::json::parse(file)) {
    SCOPED_TRACE(each["network"].get<std::string>());
    std::vector<TokenRow> rows;
    for (const nlohmann::json& row : each["rows"]) {
      rows.push_back({row["ids"], row["position"], row["target"]});
    }
    std::vector<double> w;
    for (const int number : each["thousandths"]) w.push_back(number / 1000.0);
    const Graph graph = named(each["network"]);
    ASSERT_EQ(w.size(), static_cast<std::size_t>(graph.parameters()));
    TokenNetwork<double> net(graph, padded(rows, 6));
    for (const double loss : each["losses"]) {
      EXPECT_NEAR(net.learn(w, w.data(), -each["learning_rate"].get<double>(), 1), loss, 1e-10);
    }
    for (std::size_t k = 0; k < each["sums"].size(); ++k) {
      double sum = 0;
      for (std::size_t i = 0; i < w.size(); ++i) {
        sum += w[i] * std::cos(static_cast<double>(k) * static_cast<double>(i));
      }
      EXPECT_NEAR(sum, each["sums"][k].get<double>(), 1e-10);
    }
    for (std::size_t i = 0; i < each["last"].size(); ++i) {
      EXPECT_NEAR(w[16 * i], each["last"][i].get<double>(), 1e-10) << 16 * i;
    }
  }
}

std::vector<double> parameters_of(const Graph& graph) { return some_parameters<double>(graph); }

// Random tokens, as many rows as lengths. In a causal network every position has a target.
std::vector<TokenRow> random_rows(const Graph& graph, const std::vector<std::size_t>& lengths) {
  RandomStream random(12, Purpose::test);
  const auto kind = [&] {
    return static_cast<std::uint16_t>(
        random.below(static_cast<std::uint64_t>(graph.node(0).tokens)));
  };
  std::vector<TokenRow> rows;
  for (const std::size_t length : lengths) {
    TokenRow& row = rows.emplace_back();
    for (std::uint32_t t = 0; t < length; ++t) {
      row.ids.push_back(kind());
      if (!is_causal(graph) && t % 2 == 1) continue;
      row.position.push_back(t);
      row.target.push_back(kind());
    }
  }
  return rows;
}

// Each element of each block of small networks.
TEST(TokenNetwork, GradientIsThatOfCentralDifferences) {
  const std::string small = "layers=1&heads=2&width=4&hidden=5&block=6&vocabulary=5";
  for (const Graph& graph :
       {named("gpt-micro?" + small), named("gpt-micro?" + small + "&tied=0&gelu=tanh"),
        named("gpt-micro?" + small + "&bias=1&dropout=0.2"), named("bert-micro?" + small),
        named("bert-micro?" + small + "&tied=0&dropout=0.2"), odd_transformer()}) {
    SCOPED_TRACE(graph.name());
    const std::vector<TokenRow> rows = random_rows(graph, {5, 3, 4});
    TokenNetwork<double> net(graph, is_causal(graph) ? packed(rows) : padded(rows, 5));
    const std::vector<double> w = parameters_of(graph), g = net.gradient(w);
    for (std::size_t i = 0; i < w.size(); ++i) {
      constexpr double kStep = 1e-5;
      std::vector<double> up = w, down = w;
      up[i] += kStep;
      down[i] -= kStep;
      EXPECT_NEAR((net.loss(up) - net.loss(down)) / (2 * kStep), g[i], 1e-7) << i;
    }
  }
}

TEST(TokenNetwork, AStepIsThatOfItsGradient) {
  for (const char* name : {"gpt-micro?width=8&block=9", "gpt-micro?width=8&block=9&tied=0",
                           "bert-micro?width=8&block=9"}) {
    const Graph graph = named(name);
    TokenNetwork<double> net(graph, padded(random_rows(graph, {9, 4}), 9));
    const std::vector<double> w = parameters_of(graph), g = net.gradient(w);
    std::vector<double> moved = w;
    net.learn(moved, moved.data(), -0.25, 1);
    for (std::size_t i = 0; i < w.size(); ++i) {
      EXPECT_NEAR(moved[i], w[i] - 0.25 * g[i], 1e-14) << i;
    }
  }
}

std::vector<float> rounded_parameters(const Graph& graph) { return some_parameters<float>(graph); }

// Outputs of a row's first `steps` tokens.
std::vector<float> outputs_of(const Graph& graph, const std::vector<TokenRow>& rows,
                              std::uint32_t padded_to, std::size_t row, std::size_t steps) {
  const auto all =
      TokenNetwork<float>(graph, padded(rows, padded_to)).map(rounded_parameters(graph));
  const auto width = static_cast<std::size_t>(graph.node(1).shape.channels);
  const std::size_t first = padded(rows, padded_to).begin[row];
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(steps * width)};
}

TEST(TokenNetwork, LaterTokensChangeNoBitOfACausalOutput) {
  for (const char* name : {"gpt-micro?width=16&block=70", "bert-micro?width=16&block=70"}) {
    const Graph graph = named(name);
    std::vector<TokenRow> rows = random_rows(graph, {70});
    for (const std::size_t t : {0UL, 5UL, 63UL, 64UL}) {
      const auto before = outputs_of(graph, rows, 70, 0, t + 1);
      std::vector<TokenRow> other = rows;
      other[0].ids[t + 1] = static_cast<std::uint16_t>((other[0].ids[t + 1] + 1) % 32);
      EXPECT_EQ(outputs_of(graph, other, 70, 0, t + 1) == before, is_causal(graph)) << t;
    }
  }
}

TEST(TokenNetwork, ARowHasTheSameBitsAloneAndPaddedAndPacked) {
  for (const char* name : {"gpt-micro?width=16&block=96", "bert-micro?width=16&block=96"}) {
    const Graph graph = named(name);
    const std::vector<TokenRow> rows = random_rows(graph, {66, 90, 7});
    const auto alone = outputs_of(graph, {rows[0]}, 66, 0, 66);
    EXPECT_EQ(outputs_of(graph, rows, 90, 0, 66), alone);
    EXPECT_EQ(outputs_of(graph, rows, 96, 0, 66), alone);
    EXPECT_EQ(outputs_of(graph, {rows[2], rows[0]}, 66, 1, 66), alone);
    EXPECT_EQ(outputs_of(graph, rows, 0, 0, 66), alone);
    EXPECT_EQ(outputs_of(graph, {rows[2], rows[0]}, 0, 1, 66), alone);
  }
}

template <class Real>
void expect_same_gradients(const Graph& graph, double tolerance) {
  const std::vector<TokenRow> rows = random_rows(graph, {66, 90, 7});
  const std::vector<Real> w = some_parameters<Real>(graph);
  TokenNetwork<Real> tight(graph, padded(rows, 90));
  const std::vector<Real> a = tight.gradient(w);
  for (const TokenBatch& batch : {padded(rows, 96), packed(rows)}) {
    TokenNetwork<Real> other(graph, batch);
    EXPECT_NEAR(other.loss(w), tight.loss(w), tolerance);
    const std::vector<Real> b = other.gradient(w);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
  }
}

// Padding and packing change only the order of sums over tokens.
TEST(TokenNetwork, PaddingAndPackingChangeNoGradient) {
  for (const char* name : {"gpt-micro?width=16&block=96&bias=1", "bert-micro?width=16&block=96"}) {
    expect_same_gradients<double>(named(name), 1e-13);
    expect_same_gradients<float>(named(name), 1e-6);
  }
}

// Without positions a bidirectional network knows no order.
TEST(TokenNetwork, PermutedTokensHavePermutedOutputs) {
  const Graph graph =
      parse_graph("bag", R"({"name": "bag", "input": [1,6,1], "tokens": 9, "nodes": [
    {"type": "embed", "units": 8, "positions": "none"}, {"type": "linear", "units": 24},
    {"type": "attention", "heads": 2}, {"type": "linear", "units": 8},
    {"type": "add", "from": ["linear_4", "embed_1"]}, {"type": "norm"},
    {"type": "softmax", "units": 9, "tied": "embed_1"}]})");
  std::vector<TokenRow> rows = random_rows(graph, {6});
  const auto before = outputs_of(graph, rows, 6, 0, 6);
  std::ranges::reverse(rows[0].ids);
  const auto after = outputs_of(graph, rows, 6, 0, 6);
  for (std::size_t t = 0; t < 6; ++t) {
    for (std::size_t c = 0; c < 8; ++c) {
      EXPECT_NEAR(after[t * 8 + c], before[(5 - t) * 8 + c], 1e-6) << t;
    }
  }
}

TEST(TokenNetwork, PermutedHeadsChangeNothing) {
  const Graph graph = named("gpt-micro?width=8&heads=2&layers=1&block=12");
  TokenNetwork<double> net(graph, padded(random_rows(graph, {12, 9}), 12));
  const std::vector<double> w = parameters_of(graph);
  const std::vector<std::size_t> offsets = parameter_offsets(graph);
  constexpr std::size_t kQkv = 3, kOut = 5, kWidth = 8, kDepth = 4;
  std::vector<double> other = w;
  for (std::size_t row = 0; row < 3 * kWidth; ++row) {  // rows of each of q, k and v
    const std::size_t from = row / kWidth * kWidth + (row % kWidth + kDepth) % kWidth;
    std::copy_n(&w[offsets[kQkv] + from * kWidth], kWidth, &other[offsets[kQkv] + row * kWidth]);
  }
  for (std::size_t row = 0; row < kWidth; ++row) {
    for (std::size_t c = 0; c < kWidth; ++c) {
      other[offsets[kOut] + row * kWidth + c] =
          w[offsets[kOut] + row * kWidth + (c + kDepth) % kWidth];
    }
  }
  EXPECT_NEAR(net.loss(other), net.loss(w), 1e-12);
}

// Any number of cores, any policy.
TEST(TokenNetwork, BitsDependNeitherOnCoresNorOnPolicies) {
  const Graph graph = named("gpt-micro?width=32&dropout=0.1");
  const std::vector<TokenRow> rows = random_rows(graph, {64, 50, 64, 33, 64, 12});
  const std::vector<float> w = rounded_parameters(graph);
  const auto expected = TokenNetwork<float>(graph, padded(rows, 64)).gradient(w);
  for (const int cores : {2, 4}) {
    TokenNetwork<float> net(graph, padded(rows, 64), liveness_policy(), cores);
    EXPECT_EQ(net.gradient(w), expected) << cores;
  }
  for (const Policy* policy : all_policies()) {
    TokenNetwork<float> net(graph, padded(rows, 64), *policy);
    EXPECT_EQ(net.gradient(w), expected) << policy->name();
  }
}

}  // namespace
}  // namespace hetsgd::test
