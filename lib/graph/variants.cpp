#include "graph/variants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace hetsgd {

namespace {

// A network of tokens whose last node `change` has changed.
template <class Change>
Graph with_softmax(const Graph& graph, std::int64_t tokens, const Change& change) {
  HETSGD_CHECK(graph.reads_tokens());
  Graph result(graph.name(), graph.node(0).shape, tokens);
  for (int index = 1; index < graph.size(); ++index) {
    Node node = graph.node(index);
    if (node.type == NodeType::softmax) change(node);
    result.add(std::move(node));
  }
  result.finish();
  return result;
}

}  // namespace

std::optional<int> step_bound_node(const Graph& graph) {
  if (graph.reads_tokens()) return std::nullopt;
  if (graph.node(0).shape.width != 1) return 0;
  std::vector<bool> has_steps{true};  // by node: whether its output has steps
  for (int index = 1; index < graph.size(); ++index) {
    const Node& node = graph.node(index);
    const auto of_input = [&](int from) -> bool { return has_steps[at(from)]; };
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
  const Node& input = graph.node(0);
  Graph result(graph.name(), {input.shape.channels, steps, input.shape.width}, input.tokens);
  for (int index = 1; index < graph.size(); ++index) result.add(graph.node(index));
  result.finish();
  HETSGD_CHECK_EQ(result.parameters(), graph.parameters());
  return result;
}

std::int64_t most_steps(const Graph& graph) {
  std::optional<std::int64_t> most;
  for (const Node& node : graph.nodes()) {
    if (node.type != NodeType::embed || node.positions != Positions::learned) continue;
    most = std::min(most.value_or(node.block), node.block);
  }
  return most.value_or(graph.node(0).shape.height);
}

Graph with_vocabulary(const Graph& graph, std::int64_t tokens) {
  return with_softmax(graph, tokens, [=](Node& softmax) { softmax.units = tokens; });
}

Graph with_masked(const Graph& graph, double share) {
  return with_softmax(graph, graph.node(0).tokens, [=](Node& softmax) { softmax.masked = share; });
}

Graph with_fork_copies(const Graph& graph) {
  Graph result(graph.name(), graph.node(0).shape, graph.node(0).tokens);
  // For each node, the outputs that its remaining readers take, from the back: the output itself,
  // then its copies.
  std::vector<std::deque<int>> readable(static_cast<std::size_t>(graph.size()));
  const auto publish = [&](int index, int added) {
    std::deque<int>& list = readable[at(index)];
    for (std::size_t copy = 1; copy < graph.consumers(index).size(); ++copy) {
      const Node& node = graph.node(index);
      list.push_back(result.add({.name = copy == 1 ? fmt::format("fork_{}", node.name)
                                                   : fmt::format("fork_{}_{}", node.name, copy),
                                 .type = NodeType::subsample,
                                 .from = {added},
                                 .channels = node.shape.channels}));
    }
    list.push_back(added);
  };
  publish(0, 0);
  for (int index = 1; index < graph.size(); ++index) {
    Node node = graph.node(index);
    for (int& from : node.from) {
      std::deque<int>& list = readable[at(from)];
      from = list.back();
      list.pop_back();
    }
    publish(index, result.add(std::move(node)));
  }
  result.finish();
  return result;
}

}  // namespace hetsgd
