// Networks of tokens: counts that were published or worked out by hand, the work of their nodes,
// and what nodes refuse.

#include "graph/graph_file.hpp"
#include "graph/needs.hpp"
#include "graph/networks.hpp"
#include "graph/variants.hpp"
#include "graph/work.hpp"
#include "support/failure.hpp"

namespace hetsgd::test {
namespace {

Graph token_network(const std::string& name) { return find_graph("NETWORK", name); }

// The operations of the products of one row, forward and backward.
double training_products(const Graph& graph) {
  double sum = 0;
  for (int i = 1; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const double operations = node_work(graph, i, Pass::forward, 1, true).operations +
                              node_work(graph, i, Pass::backward, 1, true).operations;
    const auto steps = static_cast<double>(node.shape.height);
    const double keys = node.causal ? (steps + 1) / 2 : steps;
    if (node.type == NodeType::linear) sum += operations;
    if (node.type == NodeType::attention) {
      sum += operations - 13 * steps * keys * static_cast<double>(node.heads);
    }
    if (node.type == NodeType::softmax) {
      const double targets = node.bias ? std::floor(0.15 * steps + 0.5) : steps;
      sum += operations - 8 * targets * static_cast<double>(node.units);
    }
  }
  return sum;
}

TEST(Transformers, HaveTheirParametersAndOperations) {
  struct Expected {
    const char* name;
    std::int64_t parameters;
    double giga, tolerance;
  };
  for (const Expected& each :
       std::initializer_list<Expected>{{"gpt-micro", 104'768, 0.0423, 5e-5},
                                       {"gpt-tiny", 803'712, 0.320, 5e-4},
                                       {"nanogpt-char", 10'745'088, 17.4, 0.05},
                                       {"gpt2", 124'439'808, 827, 0.5},
                                       {"bert-micro", 110'753, 0.0468, 5e-5},
                                       {"bert-base", 109'514'298, 0, 0},
                                       {"bert-base?steps=128", 109'514'298, 70.5, 0.05},
                                       {"bert-large?steps=128", 335'174'458, 242, 0.5},
                                       {"bert-large", 335'174'458, 1036, 0.5}}) {
    const Graph graph = token_network(each.name);
    EXPECT_EQ(graph.parameters(), each.parameters) << each.name;
    if (each.giga > 0) {
      EXPECT_NEAR(training_products(graph) / 1e9, each.giga, each.tolerance) << each.name;
      EXPECT_NEAR(training_products(graph) / multiply_adds(graph), 6, 0.3) << each.name;
    }
  }
  // A kind of token adds its vector; biases add 11 C per layer and C at the end.
  EXPECT_EQ(token_network("gpt-tiny?vocabulary=63").parameters(), 803'712 + 128);
  EXPECT_EQ(token_network("gpt-tiny?bias=1").parameters(), 803'712 + 11 * 128 * 4 + 128);
  EXPECT_EQ(token_network("gpt-tiny?tied=0").parameters(), 803'712 + 62 * 128);
  EXPECT_EQ(token_network("gpt-tiny?hidden=100").parameters(), 803'712 - 4 * 2 * 128 * 412);
}

// A network with every node of tokens: C 4, hidden 6, V 7, T 3.
Graph small_transformer(bool causal = true, const std::string& softmax = R"("tied": "embed_1")") {
  return parse_graph("g",
                     fmt::format(R"({{"name": "small", "input": [1,3,1], "tokens": 7, "nodes": [
    {{"type": "embed", "units": 4, "block": 5, "segments": 2}},
    {{"type": "norm", "bias": false}}, {{"type": "linear", "units": 12}},
    {{"type": "attention", "heads": 2, "causal": {}}}, {{"type": "linear", "units": 6}},
    {{"type": "gelu", "form": "tanh"}}, {{"type": "linear", "units": 4, "bias": false}},
    {{"type": "add", "from": ["linear_7", "norm_2"]}},
    {{"type": "softmax", "units": 7, {}}}]}})",
                                 causal, softmax));
}

TEST(TokenNodes, HaveShapesAndParameters) {
  const Graph graph = small_transformer();
  EXPECT_EQ(graph.node(1).shape, (Shape{4, 3, 1, MapOrder::tokens}));
  EXPECT_EQ(graph.node(4).shape, (Shape{4, 3, 1, MapOrder::tokens}));
  EXPECT_EQ(graph.node(9).shape, (Shape{4, 3, 1, MapOrder::tokens}));
  EXPECT_EQ(to_string(graph.node(3).shape), "[3 tokens x 12]");
  const std::vector<std::int64_t> parameters{
      0, 4 * (7 + 5 + 2), 4, 4 * 12 + 12, 0, 4 * 6 + 6, 0, 24, 0, 0};
  for (int i = 0; i < graph.size(); ++i) {
    EXPECT_EQ(graph.parameters(i), parameters[at(i)]) << i;
  }
  EXPECT_EQ(small_transformer(true, R"("bias": true)").parameters(9), 4 * 7 + 7);
  EXPECT_EQ(small_transformer(true, R"("bias": true, "tied": "embed_1")").parameters(9), 7);
  EXPECT_EQ(tied_embed(graph, 9), 1);
  EXPECT_EQ(tied_embed(small_transformer(true, R"("bias": true)"), 9), std::nullopt);
  const Graph again = parse_graph("again", to_json_text(graph));
  EXPECT_TRUE(again == graph);
}

// N = 6 tokens; a causal step reads (3 + 1) / 2 keys on average.
TEST(TokenNodes, HaveTheWorkOfTheirFormulas) {
  const auto expect = [](const Graph& graph, int node, Pass pass, double operations, double words,
                         double launches) {
    const Work work = node_work(graph, node, pass, 2, true);
    EXPECT_EQ(work.operations, operations) << node;
    EXPECT_EQ(work.bytes, 4 * words) << node;
    EXPECT_EQ(work.launches, launches) << node;
  };
  const Graph graph = small_transformer(), both = small_transformer(false);
  const double n = 6, c = 4, h = 2;
  expect(graph, 1, Pass::forward, 2 * n * c, 2 * n * c, 1);
  expect(graph, 1, Pass::backward, 2 * n * c, 2 * n * c + 2 * 7 * c, 1);
  expect(graph, 2, Pass::forward, 8 * n * c, 3 * n * c, 1);
  expect(graph, 2, Pass::backward, 14 * n * c, 5 * n * c, 1);
  expect(graph, 3, Pass::forward, 2 * n * 4 * 12, n * 16 + 60, 1);
  expect(graph, 3, Pass::backward, 4 * n * 4 * 12, 2 * (n * 16 + 60), 2);
  expect(graph, 4, Pass::forward, 4 * n * 2 * c + 5 * n * 2 * h, 4 * n * c + n * h, 1);
  expect(graph, 4, Pass::backward, 10 * n * 2 * c + 8 * n * 2 * h, 8 * n * c + n * h, 2);
  expect(both, 4, Pass::forward, 4 * n * 3 * c + 5 * n * 3 * h, 4 * n * c + n * h, 1);
  expect(graph, 6, Pass::forward, 10 * n * 6, 2 * n * 6, 1);
  expect(graph, 6, Pass::backward, 14 * n * 6, 3 * n * 6, 1);
  expect(graph, 9, Pass::forward, 6 * n * 7 * c + 8 * n * 7, 3 * (n * c + 7 * c) + 6 * n * 7, 4);
  expect(graph, 9, Pass::backward, 0, 0, 0);
  // One target for each of the two rows.
  expect(both, 9, Pass::forward, 6 * 2 * 7 * c + 8 * 2 * 7, 3 * (2 * c + 7 * c) + 6 * 2 * 7, 4);
  EXPECT_EQ(node_work(graph, 3, Pass::backward, 2, false).operations, 2 * n * 4 * 12);
}

TEST(TokenNodes, StoredScoresCostMemoryWordsAndLaunches) {
  const std::string name = "gpt-micro?steps=32";
  const Graph graph = token_network(name), stored = token_network(name + "&scores=1");
  constexpr int kAttention = 4;
  const double keys = 33.0 / 2, score_words = 3 * 32 * keys * 2;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const Work a = node_work(graph, kAttention, pass, 3, true);
    const Work b = node_work(stored, kAttention, pass, 3, true);
    EXPECT_EQ(a.operations, b.operations);
    EXPECT_EQ(b.bytes - a.bytes, 4 * score_words * (pass == Pass::forward ? 8 : 10));
    EXPECT_EQ(b.launches - a.launches, pass == Pass::forward ? 3 : 4);
  }
  const auto mask = [&](const Graph& of) {
    return backward_needs(of, kAttention, 3, BackwardNeeds::minimal).mask;
  };
  EXPECT_EQ(mask(graph), 4 * 3 * 2 * 32);
  EXPECT_EQ(mask(stored) - mask(graph), 4 * 3 * 2 * 32 * 32);
}

TEST(TokenNodes, NeedsOfTheBackwardPass) {
  const Graph graph = small_transformer();
  const auto needs = [&](int node) { return backward_needs(graph, node, 2, BackwardNeeds::cudnn); };
  for (const int node : {1, 2, 3, 4, 6}) EXPECT_TRUE(needs(node).input) << node;
  for (const int node : {1, 2, 3, 6}) EXPECT_FALSE(needs(node).output) << node;
  EXPECT_TRUE(needs(4).output);
  EXPECT_EQ(needs(2).mask, 4 * 2 * 6);
  EXPECT_EQ(needs(4).mask, 4 * 2 * 6);
  EXPECT_TRUE(gradient_in_place(graph, 2));
  EXPECT_FALSE(gradient_in_place(graph, 3));  // norm_2 has two consumers, and linear its own sum
  EXPECT_TRUE(gradient_in_place(graph, 6));
  EXPECT_TRUE(gradient_in_place(graph, 8));
}

TEST(TokenNodes, RefuseMapsOfTheOtherOrder) {
  const auto message = [](const std::string& nodes, const std::string& input = "[1,3,1]",
                          int tokens = 7) {
    return failure_of([&] {
             parse_graph("g", fmt::format(R"({{"name": "g", "input": {}, "tokens": {}, "nodes": [{}
                         {{"type": "fc", "units": 2}}, {{"type": "softmax"}}]}})",
                                          input, tokens, nodes));
           })
        .message;
  };
  const std::string embed = R"({"type": "embed", "units": 4, "block": 8},)";
  EXPECT_EQ(message(embed),
            "g: node \"fc_2\": found an input [3 tokens x 4], expected one whose elements "
            "lie channel by channel");
  EXPECT_EQ(message(R"({"type": "gelu"},)", "[3,8,8]", 0),
            "g: node \"gelu_1\": found an input [3,8,8], expected one whose elements lie "
            "token by token, as embed makes it");
  for (const char* node : {R"("conv", "channels": 4, "kernel": 1)", R"("pool", "kernel": 1)",
                           R"("lrn")", R"("bn")", R"("concat", "from": ["embed_1", "embed_1"])",
                           R"("subsample", "channels": 4)", R"("lstm", "units": 4)"}) {
    const std::string found = message(fmt::format("{}{{\"type\": {}}},", embed, node));
    EXPECT_NE(found.find("whose elements lie channel by channel"), std::string::npos) << found;
  }
  EXPECT_NE(message(R"({"type": "linear", "units": 4},)").find("expected the map of an embed"),
            std::string::npos);
  EXPECT_NE(message(embed + embed).find("expected the input's tokens"), std::string::npos);
  EXPECT_NE(message(embed, "[2,3,1]").find("expected [1,steps,1]"), std::string::npos);
  EXPECT_NE(message(embed, "[1,9,1]").find("found 9 steps, expected at most 8"), std::string::npos);
  EXPECT_NE(message(R"({"type": "embed", "units": 4},)").find("block"), std::string::npos);
  EXPECT_NE(message(embed + R"({"type": "attention"},)").find("a multiple of 3"),
            std::string::npos);
  EXPECT_NE(
      message(embed + R"({"type": "linear", "units": 12}, {"type": "attention", "heads": 3},)")
          .find("found 3 heads, expected a divisor of the width 4"),
      std::string::npos);
}

TEST(TokenNodes, ATiedSoftmaxNamesItsEmbed) {
  const auto message = [](const std::string& softmax) {
    return failure_of([&] { small_transformer(true, softmax); }).message;
  };
  EXPECT_EQ(message(R"("tied": "embed_1")"), "");
  EXPECT_NE(message(R"("tied": "norm_2")").find("found tied \"norm_2\""), std::string::npos);
  EXPECT_NE(message(R"("tied": "linear")").find("found tied \"linear\""), std::string::npos);
  EXPECT_NE(message(R"("smoothing": 1)").find("smoothing"), std::string::npos);
}

TEST(Transformers, HaveTheSameParametersAtAnySteps) {
  for (const char* name : {"gpt-micro", "bert-micro"}) {
    const Graph graph = token_network(name);
    EXPECT_EQ(step_bound_node(graph), std::nullopt);
    const Graph moved = with_steps(graph, 20);
    EXPECT_EQ(moved.nodes(), token_network(std::string(name) + "?steps=20").nodes());
    EXPECT_EQ(moved.parameters(), graph.parameters());
    EXPECT_NE(error_of([&] { with_steps(graph, 65); }).find("found 65 steps"), std::string::npos);
  }
  EXPECT_TRUE(is_causal(token_network("gpt-micro")));
  EXPECT_FALSE(is_causal(token_network("bert-micro")));
  EXPECT_EQ(targets_of_row(token_network("gpt-micro"), 64), 64);
  EXPECT_EQ(targets_of_row(token_network("bert-micro"), 64), 10);
  EXPECT_EQ(targets_of_row(token_network("bert-micro"), 3), 1);
}

TEST(Transformers, RefuseKeysThatDoNotFit) {
  const auto message = [](const std::string& name) {
    return error_of([&] { token_network(name); }, ExitCode::usage);
  };
  EXPECT_NE(message("gpt-tiny?heads=3").find("a divisor of the width 128"), std::string::npos);
  EXPECT_NE(message("gpt-tiny?steps=65").find("at most 64"), std::string::npos);
  EXPECT_NE(message("gpt-tiny?dropout=1").find("dropout"), std::string::npos);
}

// nanoGPT drops the embedding, the probabilities of attention and both branches.
TEST(Transformers, DropWhereNanoGptDoes) {
  const Graph graph = token_network("gpt-micro?dropout=0.2");
  int drops = 0;
  for (const Node& node : graph.nodes()) {
    if (node.type == NodeType::dropout || node.type == NodeType::attention) {
      EXPECT_EQ(node.p, 0.2) << node.name;
      ++drops;
    }
  }
  EXPECT_EQ(drops, 1 + 2 * 3);
  EXPECT_EQ(graph.parameters(), token_network("gpt-micro").parameters());
}

}  // namespace
}  // namespace hetsgd::test
