#include "memory/order.hpp"

#include <algorithm>

namespace hetsgd {

std::vector<int> execution_order(const Graph& graph) {
  std::vector<std::size_t> arrivals(static_cast<std::size_t>(graph.size()), 0);
  std::vector<int> order;
  std::vector<int> stack{0};  // the last one is visited next: as deep as the network, not recursive
  while (!stack.empty()) {
    const int node = stack.back();
    stack.pop_back();
    std::size_t& count = arrivals[static_cast<std::size_t>(node)];
    if (++count < std::max<std::size_t>(1, graph.node(node).from.size())) continue;
    order.push_back(node);
    const std::vector<int>& next = graph.consumers(node);
    stack.insert(stack.end(), next.rbegin(), next.rend());
  }
  return order;
}

}  // namespace hetsgd
