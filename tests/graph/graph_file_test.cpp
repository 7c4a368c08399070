#include "graph/graph_file.hpp"

#include "graph/needs.hpp"
#include "graph/work.hpp"
#include "support/failure.hpp"

namespace hetsgd {
namespace {

std::string network(const std::string& nodes) {
  return R"({"name": "net", "input": [3,8,8], "nodes": [)" + nodes +
         R"({"type": "fc", "units": 2, "name": "out"}, {"type": "softmax"}]})";
}

std::string graph_error(const std::string& text) {
  return test::failure_of([&] { parse_graph("n.json", text); }).message;
}

TEST(GraphFile, ReadsAttributesAndBranches) {
  const Graph graph = parse_graph(
      "n.json",
      network(R"({"name": "a", "type": "conv", "channels": 4, "kernel": [1,3], "padding": [0,1]},
                 {"name": "b", "type": "pool", "kernel": 3, "stride": 2, "ceil": true},
                 {"name": "c", "type": "pool", "kind": "average", "from": ["a"], "kernel": 3,
                  "stride": 2, "ceil": true},
                 {"type": "add", "from": ["b", "c"]},)"));
  EXPECT_EQ(graph.node(1).shape, (Shape{4, 8, 8}));
  EXPECT_EQ(graph.node(2).shape, (Shape{4, 4, 4}));  // ceil(5/2) + 1
  EXPECT_EQ(graph.node(4).from, (std::vector<int>{2, 3}));
  EXPECT_EQ(graph.consumers(1), (std::vector<int>{2, 3}));
  EXPECT_EQ(graph.parameters(1), 4 * 9);
  EXPECT_EQ(graph.parameters(5), 2 * 64 + 2);
  EXPECT_TRUE(parse_graph("again", to_json_text(graph)) == graph);
}

TEST(GraphFile, NamesNodeFoundAndExpected) {
  EXPECT_EQ(
      graph_error(network(R"({"name": "a", "type": "conv", "channels": 1, "kernel": 9},)")),
      "n.json: net: node \"a\": found a kernel of height 9, expected at most 8, the input's 8 "
      "with padding");
  EXPECT_EQ(graph_error(network(R"({"name": "a", "type": "subsample", "channels": 3, "stride": 2},
                                   {"name": "b", "type": "add", "from": ["input", "a"]},)")),
            "n.json: net: node \"b\": found inputs [3,8,8] and [3,4,4], expected equal shapes");
  EXPECT_EQ(graph_error(network(R"({"name": "a", "type": "relu", "from": ["z"]},)")),
            "n.json: nodes[0].from: found \"z\", expected the name of an earlier node");
  EXPECT_NE(graph_error(R"({"name": "x", "input": [1,1,1], "nodes": [{"type": "softmax"}]})")
                .find("expected at least one node with parameters"),
            std::string::npos);
  EXPECT_NE(graph_error(network(R"({"type": "relo"},)")).find("nodes[0].type"), std::string::npos);
  EXPECT_NE(graph_error(network(R"({"type": "relu", "units": 3},)")).find("units"),
            std::string::npos);
  EXPECT_NE(graph_error(network(R"({"type": "fc", "units": 0},)")).find("units: found 0"),
            std::string::npos);
  EXPECT_EQ(
      graph_error(network(R"({"name": "a", "type": "relu"},
                                   {"type": "relu", "from": ["input"]},)")),
      "n.json: net: node \"a\": found an output that no node uses, expected at least one user");
  EXPECT_NE(graph_error(R"({"name": "x", "input": [1,1,1.5], "nodes": []})").find("input"),
            std::string::npos);
}

// Formulas of a conv 4 3x3 on 3x8x8, batch 2: y = 256 numbers per sample, K = 27, P = 108.
// 2^27 channels, 2^18 cells of the kernel and 2^19 filters: 2^64 parameters are not 0.
TEST(Graph, RefusesParametersBeyond64Bits) {
  Graph graph("wrap", {64, 1, 1});
  for (int i = 0; i < 21; ++i) {
    graph.add({.name = fmt::format("c{}", i), .type = NodeType::concat, .from = {i, i}});
  }
  Node conv{.name = "huge", .type = NodeType::conv, .from = {21}};
  conv.channels = 1 << 19;
  conv.kernel = {512, 512};
  conv.padding = {256, 256};
  EXPECT_NE(test::error_of([&] { graph.add(conv); }).find("\"huge\""), std::string::npos);
}

// 2^22 channels, each a group of its own: 2^44 spectra of 2^17 complex numbers are beyond 64 bits.
TEST(Convolution, WorkspacesDoNotWrap) {
  Graph graph("groups", {1 << 19, 1, 1});
  for (int i = 0; i < 3; ++i) {
    graph.add({.name = fmt::format("c{}", i), .type = NodeType::concat, .from = {i, i}});
  }
  Node conv{.name = "conv", .type = NodeType::conv, .from = {3}};
  conv.channels = conv.groups = 1 << 22;
  conv.kernel = {512, 512};
  conv.padding = {256, 256};
  const int index = graph.add(conv);
  const auto list = convolution_algorithms(graph, index, 1);
  EXPECT_EQ(list.front().kind, ConvolutionKind::fft);
  EXPECT_EQ(list.front().workspace_bytes, std::uint64_t{1} << 60);
}

TEST(Work, OfAConvolution) {
  const Graph graph = parse_graph(
      "n.json", network(R"({"type": "conv", "channels": 4, "kernel": 3, "padding": 1},)"));
  const Work forward = node_work(graph, 1, Pass::forward, 2, true);
  EXPECT_EQ(forward.operations, 2 * 2 * 256 * 27);
  EXPECT_EQ(forward.bytes, 4 * (2 * 192 + 2 * 256 + 108));
  EXPECT_EQ(forward.launches, 1);
  const Work backward = node_work(graph, 1, Pass::backward, 2, true);
  EXPECT_EQ(backward.operations, 2 * forward.operations);
  EXPECT_EQ(node_work(graph, 1, Pass::backward, 2, false).operations, forward.operations);
  const auto algorithms = convolution_algorithms(graph, 1, 2);
  ASSERT_EQ(algorithms.size(), 3u);
  EXPECT_EQ(algorithms[0].kind, ConvolutionKind::winograd);
  EXPECT_EQ(algorithms[0].workspace_bytes, 144u * (2 * 4 * (3 + 4) + 12));
  EXPECT_EQ(algorithms[1].workspace_bytes, 4u * (27 + 64));
  EXPECT_EQ(algorithms[2].workspace_bytes, 0u);
}

TEST(Needs, OfCudnnAndOfTheMathematics) {
  const Graph graph =
      parse_graph("n.json", network(R"({"type": "relu"}, {"type": "pool", "kernel": 2, "stride": 2},
                           {"type": "dropout"},)"));
  EXPECT_TRUE(backward_needs(graph, 1, 2, BackwardNeeds::cudnn).input);
  EXPECT_FALSE(backward_needs(graph, 1, 2, BackwardNeeds::minimal).input);
  EXPECT_TRUE(backward_needs(graph, 1, 2, BackwardNeeds::minimal).output);
  EXPECT_EQ(backward_needs(graph, 2, 2, BackwardNeeds::cudnn).mask, 0);
  EXPECT_EQ(backward_needs(graph, 2, 2, BackwardNeeds::minimal).mask, 2 * 48);
  EXPECT_EQ(backward_needs(graph, 3, 2, BackwardNeeds::cudnn).mask, 2 * 48);
}

}  // namespace
}  // namespace hetsgd
