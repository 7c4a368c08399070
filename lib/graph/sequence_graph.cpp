#include "graph/sequence_graph.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

std::optional<int> step_bound_node(const Graph& graph) {
  if (graph.node(0).shape.width != 1) return 0;
  std::vector<bool> has_steps{true};  // by node: whether its output has steps
  for (int index = 1; index < graph.size(); ++index) {
    const Node& node = graph.node(index);
    const auto of_input = [&](int from) -> bool {
      return has_steps[static_cast<std::size_t>(from)];
    };
    const bool reads = std::ranges::any_of(node.from, of_input);
    const bool passes =
        node.type == NodeType::relu || node.type == NodeType::add || node.type == NodeType::concat;
    if (reads && !std::ranges::all_of(node.from, of_input)) return index;
    if (reads && !passes && node.type != NodeType::lstm) return index;
    has_steps.push_back(reads && (passes || node.all));
  }
  return std::nullopt;
}

Graph with_steps(const Graph& graph, std::int64_t steps) {
  HETSGD_CHECK(!step_bound_node(graph));
  const Shape& input = graph.node(0).shape;
  Graph result(graph.name(), {input.channels, steps, input.width});
  for (int index = 1; index < graph.size(); ++index) result.add(graph.node(index));
  result.finish();
  HETSGD_CHECK_EQ(result.parameters(), graph.parameters());
  return result;
}

}  // namespace hetsgd
