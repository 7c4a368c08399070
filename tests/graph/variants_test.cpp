// The networks that read sequences of any length, and their form at another number of steps.
#include "graph/variants.hpp"

#include "graph/graph_file.hpp"
#include "graph/networks.hpp"

namespace hetsgd::test {
namespace {

Graph sequence_graph(const std::string& nodes, const std::string& input = "[3,5,1]") {
  return parse_graph("g", R"({"name": "g", "input": )" + input + R"(, "nodes": [)" + nodes +
                              R"(, {"type": "fc", "units": 2}, {"type": "softmax"}]})");
}

TEST(SequenceGraph, FindsTheNodeThatIsForOneNumberOfSteps) {
  const auto bound = [](const Graph& graph) {
    const std::optional<int> node = step_bound_node(graph);
    return node ? graph.node(*node).name : "none";
  };
  const std::string last = R"({"name": "l", "type": "lstm", "units": 4})";
  const std::string all = R"({"name": "a", "type": "lstm", "units": 4, "output": "all"})";
  EXPECT_EQ(bound(sequence_graph(last)), "none");
  EXPECT_EQ(bound(sequence_graph(all + R"(, {"name": "r", "type": "relu"}, )" + last)), "none");
  EXPECT_EQ(bound(sequence_graph(last + R"(, {"name": "d", "type": "dropout"})")), "none");
  EXPECT_EQ(bound(sequence_graph(all + R"(, {"name": "d", "type": "dropout"}, )" + last)), "d");
  EXPECT_EQ(bound(sequence_graph(all + R"(, {"name": "f", "type": "fc", "units": 3})")), "f");
  EXPECT_EQ(
      bound(sequence_graph(R"({"name": "c", "type": "conv", "channels": 3, "kernel": [2, 1]})")),
      "c");
  EXPECT_EQ(bound(sequence_graph(R"({"name": "c", "type": "conv", "channels": 3, "kernel": 3})",
                                 "[3,5,5]")),
            "input");
  EXPECT_EQ(bound(find_graph("test", "lstm-video")), "none");
  EXPECT_EQ(bound(find_graph("test", "lenet-5")), "input");
}

// The same as if it had been built for these steps.
TEST(SequenceGraph, HasTheSameNodesAtOtherSteps) {
  const Graph graph = find_graph("test", "lstm-video?steps=7&size=6&units=5&dense=4&classes=3");
  const Graph other = find_graph("test", "lstm-video?steps=19&size=6&units=5&dense=4&classes=3");
  const Graph moved = with_steps(graph, 19);
  EXPECT_EQ(moved.nodes(), other.nodes());
  EXPECT_EQ(moved.name(), graph.name());
  EXPECT_EQ(with_steps(moved, 7), graph);
  // 4 (u (i + u) + u), then 5 x 4 + 4 and 4 x 3 + 3.
  EXPECT_EQ(moved.parameters(), 4 * (5 * 11 + 5) + 24 + 15);
  EXPECT_EQ(find_graph("test", "lstm-video").parameters(), 34'663'525);
}

}  // namespace
}  // namespace hetsgd::test
