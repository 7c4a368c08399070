#include "graph/needs.hpp"

#include <fmt/format.h>

#include <deque>
#include <vector>

namespace hetsgd {

NodeNeeds backward_needs(const Graph& graph, int index, std::int64_t batch, BackwardNeeds needs) {
  const Node& node = graph.node(index);
  const bool minimal = needs == BackwardNeeds::minimal;
  const std::int64_t outputs = batch * node.shape.numbers();
  switch (node.type) {
    case NodeType::conv:
    case NodeType::fc:
      return {.input = true};
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
    default:
      return {};
  }
}

bool gradient_in_place(const Graph& graph, int index) {
  const Node& node = graph.node(index);
  switch (node.type) {
    case NodeType::relu:
    case NodeType::lrn:
    case NodeType::add:
    case NodeType::softmax:
      return graph.consumers(node.from.front()).size() == 1;
    default:
      return false;
  }
}

Graph with_fork_copies(const Graph& graph) {
  Graph result(graph.name(), graph.node(0).shape);
  // For each node, the outputs that its remaining readers take, from the back: the output itself,
  // then its copies.
  std::vector<std::deque<int>> readable(static_cast<std::size_t>(graph.size()));
  const auto publish = [&](int index, int added) {
    std::deque<int>& list = readable[static_cast<std::size_t>(index)];
    for (std::size_t copy = 1; copy < graph.consumers(index).size(); ++copy) {
      Node fork{.type = NodeType::subsample, .from = {added}};
      fork.channels = graph.node(index).shape.channels;
      fork.name = copy == 1 ? fmt::format("fork_{}", graph.node(index).name)
                            : fmt::format("fork_{}_{}", graph.node(index).name, copy);
      list.push_back(result.add(std::move(fork)));
    }
    list.push_back(added);
  };
  publish(0, 0);
  for (int index = 1; index < graph.size(); ++index) {
    Node node = graph.node(index);
    for (int& from : node.from) {
      std::deque<int>& list = readable[static_cast<std::size_t>(from)];
      from = list.back();
      list.pop_back();
    }
    publish(index, result.add(std::move(node)));
  }
  result.finish();
  return result;
}

}  // namespace hetsgd
