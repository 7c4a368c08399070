#include "graph/fork_copies.hpp"

#include <fmt/format.h>

#include <deque>
#include <vector>

namespace hetsgd {

Graph with_fork_copies(const Graph& graph) {
  Graph result(graph.name(), graph.node(0).shape);
  // What the next reader of an output takes: its copies, then the output itself.
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
