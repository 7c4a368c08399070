#include "graph/work.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace hetsgd {
namespace {

// Operations per output element, and passes over input and output, of the cheap node types.
struct LightWork {
  double forward_operations, backward_operations;
  double forward_x, forward_y, backward_x, backward_y;  // words moved per input or output element
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
    case NodeType::input:
    case NodeType::conv:
    case NodeType::fc:
    case NodeType::lstm:
    case NodeType::embed:
    case NodeType::linear:
    case NodeType::norm:
    case NodeType::gelu:
    case NodeType::attention:
      break;  // node_work() has a formula for each
  }
  return {};
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

double per_token(const Shape& shape) { return static_cast<double>(shape.channels); }

// Keys that a step reads, on average.
double keys_read(const Node& node) {
  const auto steps = static_cast<double>(node.shape.height);
  return node.causal ? (steps + 1) / 2 : steps;
}

// Stored scores cost passes over their map, and kernels of their own for products, mask, softmax
// and dropout.
Work attention_work(const Node& node, Pass pass, double tokens) {
  const bool forward = pass == Pass::forward;
  const double c = per_token(node.shape), h = static_cast<double>(node.heads);
  const double keys = keys_read(node);
  Work work{.operations = tokens * keys * (forward ? 4 * c + 5 * h : 10 * c + 8 * h),
            .bytes = tokens * (forward ? 4 * c + h : 8 * c + h) * kNumberBytes,
            .launches = forward ? 1.0 : 2.0};
  if (node.scores) {
    work.bytes += tokens * keys * h * (forward ? 8 : 10) * kNumberBytes;
    work.launches += forward ? 3 : 4;
  }
  return work;
}

// The forward pass makes both gradients, too.
Work token_softmax_work(const Graph& graph, const Node& node, Pass pass, double n) {
  if (pass == Pass::backward) return {};
  const double m = n * static_cast<double>(targets_of_row(graph, node.shape.height));
  const double c = per_token(node.shape), v = static_cast<double>(node.units);
  return {.operations = m * v * (6 * c + 8),
          .bytes = (3 * (m * c + v * c) + 6 * m * v) * kNumberBytes,
          .launches = 4};
}

// The work of the nodes that read tokens alone, for n rows.
Work token_work(const Graph& graph, int index, Pass pass, double n, bool input_gradient) {
  const Node& node = graph.node(index);
  const bool forward = pass == Pass::forward;
  const double tokens = n * static_cast<double>(node.shape.height), c = per_token(node.shape);
  const auto each = [&](double operations, double words) {
    return Work{.operations = operations * tokens * c,
                .bytes = words * tokens * c * kNumberBytes,
                .launches = 1};
  };
  switch (node.type) {
    case NodeType::embed: {
      Work work = each(2, 2);
      if (!forward) work.bytes += 2 * static_cast<double>(graph.node(0).tokens) * c * kNumberBytes;
      return work;
    }
    case NodeType::linear: {
      const double products = forward || !input_gradient ? 1 : 2;
      const double inputs = per_token(graph.input_shape(index));
      const auto p = static_cast<double>(graph.parameters(index));
      return {.operations = products * 2 * tokens * inputs * c,
              .bytes = products * (tokens * (inputs + c) + p) * kNumberBytes,
              .launches = products};
    }
    case NodeType::norm:
      return forward ? each(8, 3) : each(14, 5);
    case NodeType::gelu:
      return forward ? each(10, 2) : each(14, 3);
    case NodeType::attention:
      return attention_work(node, pass, tokens);
    case NodeType::softmax:
      return token_softmax_work(graph, node, pass, n);
    default:
      HETSGD_CHECK(false);  // not for tokens alone
      return {};
  }
}

// The workspaces of convolution algorithms.

std::int64_t even_from(std::int64_t size) { return size + size % 2; }

// Caps a workspace beyond 64 bits at a size that exceeds every device.
std::uint64_t workspace_bytes(double bytes) {
  constexpr auto kMost = static_cast<double>(std::uint64_t{1} << 60);
  return static_cast<std::uint64_t>(std::min(bytes, kMost));
}

double channel_products(const Shape& x, const Shape& y, double per_sample, std::int64_t batch) {
  const auto in = static_cast<double>(x.channels), out = static_cast<double>(y.channels);
  return static_cast<double>(batch) * per_sample * (in + out) + in * out;
}

// F(4x4, 3x3): tiles of 6x6 = 36 elements of input, output and filters.
std::uint64_t winograd_bytes(const Shape& x, const Shape& y, std::int64_t batch) {
  const std::int64_t tiles = (y.height + 3) / 4 * ((y.width + 3) / 4);
  return workspace_bytes(144 * channel_products(x, y, static_cast<double>(tiles), batch));
}

// Half of a complex spectrum of every map and filter.
std::uint64_t fft_bytes(const Node& node, const Shape& x, const Shape& y, std::int64_t batch) {
  const std::int64_t u = even_from(x.height + node.kernel[0] - 1);
  const std::int64_t v = even_from(x.width + node.kernel[1] - 1);
  const auto spectrum = static_cast<double>(u) * static_cast<double>(v / 2 + 1);
  return workspace_bytes(8 * spectrum * channel_products(x, y, 1, batch));
}

}  // namespace

Work node_work(const Graph& graph, int index, Pass pass, std::int64_t batch, bool input_gradient) {
  const Node& node = graph.node(index);
  const auto n = static_cast<double>(batch);
  const auto y = static_cast<double>(node.shape.numbers());
  if (node.type == NodeType::input) return {};
  if (node.type == NodeType::lstm) return lstm_work(graph, index, pass, n);
  if (is_for_tokens(node)) return token_work(graph, index, pass, n, input_gradient);
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
    const Node& node = graph.node(i);
    const auto tokens = static_cast<double>(node.shape.height);
    switch (node.type) {
      case NodeType::conv:
      case NodeType::fc:
      case NodeType::lstm:
      case NodeType::linear:
        sum += node_work(graph, i, Pass::forward, 1, true).operations / 2;
        break;
      case NodeType::attention:
        sum += 2 * tokens * keys_read(node) * per_token(node.shape);
        break;
      case NodeType::softmax:
        sum += static_cast<double>(targets_of_row(graph, node.shape.height) * node.units) *
               per_token(node.shape);
        break;
      default:
        break;
    }
  }
  return sum;
}

std::string_view to_string(ConvolutionKind kind) {
  static constexpr std::array<std::string_view, kConvolutionKinds> kNames{"implicit", "precomputed",
                                                                          "winograd", "fft"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<ConvolutionAlgorithm> convolution_algorithms(const Graph& graph, int index,
                                                         std::int64_t batch) {
  constexpr double kPrecomputedSpeed = 0.7;
  constexpr double kImplicitSpeed = 0.4;  // Dymem: memory-optimal loses 60 %
  const Node& node = graph.node(index);
  const Shape& x = graph.input_shape(index);
  const Shape& y = node.shape;
  std::vector<ConvolutionAlgorithm> list;
  if (node.kernel[0] == 3 && node.kernel[1] == 3 && node.stride == 1) {
    list.push_back({ConvolutionKind::winograd, winograd_bytes(x, y, batch), 1});
  }
  if (node.stride == 1 && std::max(node.kernel[0], node.kernel[1]) >= 5) {
    list.push_back({ConvolutionKind::fft, fft_bytes(node, x, y, batch), 1});
  }
  list.push_back(
      {ConvolutionKind::precomputed,
       static_cast<std::uint64_t>(kNumberBytes * (filter_size(graph, index) + y.height * y.width)),
       kPrecomputedSpeed});
  list.push_back({ConvolutionKind::implicit, 0, kImplicitSpeed});
  return list;
}

}  // namespace hetsgd
