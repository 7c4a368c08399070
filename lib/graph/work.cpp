#include "graph/work.hpp"

namespace hetsgd {
namespace {

// Operations per output number and passes over input and output of the light types.
struct LightWork {
  double forward_operations, backward_operations;
  double forward_x, forward_y, backward_x, backward_y;  // words moved per input, output number
};

LightWork light_work(const Node& node) {
  const auto cells = static_cast<double>(node.kernel[0] * node.kernel[1]);
  const auto joined = static_cast<double>(node.from.size());
  switch (node.type) {
    case NodeType::pool:
      return {cells, cells, 1, 1, 2, 2};
    case NodeType::relu:
      return {1, 1, 0, 2, 0, 3};
    case NodeType::lrn:
      return {14, 22, 0, 2, 0, 4};
    case NodeType::bn:
      return {7, 11, 0, 3, 0, 5};
    case NodeType::dropout:
      return {1, 1, 0, 2, 0, 2};
    case NodeType::softmax:
      return {5, 2, 0, 2, 0, 2};
    case NodeType::add:
      return {joined - 1, 0, 1, 1, 0, 2};
    case NodeType::concat:
    case NodeType::subsample:
      return {0, 0, 0, 2, 0, 2};
    default:
      return {};
  }
}

Work lstm_work(const Graph& graph, int index, Pass pass, double n) {
  const auto h = static_cast<double>(graph.node(index).units);
  const auto i = static_cast<double>(graph.input_shape(index).channels);
  const auto steps = static_cast<double>(sequence_steps(graph, index));
  const double times = pass == Pass::forward ? 1 : 2;
  const auto p = static_cast<double>(graph.parameters(index));
  return {.operations = times * steps * (8 * n * h * (i + h) + 30 * n * h),
          .bytes = times * steps * (p + n * (i + 6 * h)) * kNumberBytes,
          .launches = 2 * times * steps};
}

}  // namespace

Work node_work(const Graph& graph, int index, Pass pass, std::int64_t batch, bool input_gradient) {
  const Node& node = graph.node(index);
  const auto n = static_cast<double>(batch);
  const auto y = static_cast<double>(node.shape.numbers());
  if (node.type == NodeType::input) return {};
  if (node.type == NodeType::lstm) return lstm_work(graph, index, pass, n);
  double x = 0;
  for (const int from : node.from) x += static_cast<double>(graph.node(from).shape.numbers());
  if (node.type == NodeType::conv || node.type == NodeType::fc) {
    const double products = pass == Pass::forward || !input_gradient ? 1 : 2;
    const auto p = static_cast<double>(graph.parameters(index));
    return {.operations = products * 2 * n * y * static_cast<double>(filter_size(graph, index)),
            .bytes = products * (n * x + n * y + p) * kNumberBytes,
            .launches = products};
  }
  const LightWork light = light_work(node);
  if (pass == Pass::forward) {
    return {.operations = light.forward_operations * n * y,
            .bytes = (light.forward_x * n * x + light.forward_y * n * y) * kNumberBytes,
            .launches = 1};
  }
  return {.operations = light.backward_operations * n * y,
          .bytes = (light.backward_x * n * x + light.backward_y * n * y) * kNumberBytes,
          .launches = 1};
}

double multiply_adds(const Graph& graph) {
  double sum = 0;
  for (int i = 1; i < graph.size(); ++i) {
    const NodeType type = graph.node(i).type;
    if (type == NodeType::conv || type == NodeType::fc || type == NodeType::lstm) {
      sum += node_work(graph, i, Pass::forward, 1, true).operations / 2;
    }
  }
  return sum;
}

}  // namespace hetsgd
