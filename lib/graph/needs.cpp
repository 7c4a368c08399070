#include "graph/needs.hpp"

namespace hetsgd {

NodeNeeds backward_needs(const Graph& graph, int index, std::int64_t batch, BackwardNeeds needs) {
  const Node& node = graph.node(index);
  const bool minimal = needs == BackwardNeeds::minimal;
  const std::int64_t outputs = batch * node.shape.numbers();
  switch (node.type) {
    case NodeType::conv:
    case NodeType::fc:
    case NodeType::embed:
    case NodeType::linear:
    case NodeType::gelu:
      return {.input = true};
    case NodeType::norm:
      return {.input = true, .mask = 2 * node.shape.height * batch * kNumberBytes};
    case NodeType::attention: {
      const std::int64_t rows = batch * node.heads * node.shape.height;  // of the score map
      return {.input = true,
              .output = true,
              .mask = rows * (node.scores ? 1 + node.shape.height : 1) * kNumberBytes};
    }
    case NodeType::pool:
      if (!minimal) return {.input = true, .output = true};
      return {.mask = node.pool == PoolKind::max ? outputs : 0};
    case NodeType::relu:
      return {.input = !minimal, .output = true};
    case NodeType::lrn:
      return {.input = true, .output = true};
    case NodeType::bn:
      return {.input = true, .mask = 2 * node.shape.channels * kNumberBytes, .statistics = true};
    case NodeType::dropout:
      return {.mask = outputs};
    case NodeType::softmax:
      return {.output = true};
    case NodeType::lstm:
      return {.input = true,
              .mask = 6 * node.units * sequence_steps(graph, index) * batch * kNumberBytes};
    case NodeType::input:
    case NodeType::add:
    case NodeType::concat:
    case NodeType::subsample:
      break;
  }
  return {};
}

bool gradient_in_place(const Graph& graph, int index) {
  const Node& node = graph.node(index);
  switch (node.type) {
    case NodeType::relu:
    case NodeType::lrn:
    case NodeType::add:
    case NodeType::softmax:
    case NodeType::norm:
    case NodeType::gelu:
      return graph.consumers(node.from.front()).size() == 1;
    default:
      return false;
  }
}

}  // namespace hetsgd
