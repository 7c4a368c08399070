#include "graph/graph.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

// Within these bounds no sum over the nodes exceeds 64 bits.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 32;
constexpr std::int64_t kMostParameters = std::int64_t{1} << 40;
constexpr std::size_t kMostNodes = 100'000;
// Numbers of tokens travel as floats, which are exact below this.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;

constexpr std::array<std::string_view, kNodeTypes> kNodeTypeNames{
    "input", "conv",   "fc",        "pool", "relu",  "lrn",    "bn",   "dropout", "softmax",
    "add",   "concat", "subsample", "lstm", "embed", "linear", "norm", "gelu",    "attention"};
static_assert(!kNodeTypeNames.back().empty());

struct ShapeProblem {
  std::string text;
};

std::int64_t window_count(std::int64_t size, std::int64_t kernel, std::int64_t padding,
                          std::int64_t stride, bool ceil, std::string_view what) {
  const std::int64_t room = size + 2 * padding - kernel;
  if (room < 0) {
    throw ShapeProblem{
        fmt::format("found a kernel of {} {}, expected at most {}, the input's {} with padding",
                    what, kernel, size + 2 * padding, size)};
  }
  std::int64_t count = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  // A last window that lies wholly in the padding covers no input.
  if (ceil && (count - 1) * stride >= size + padding) --count;
  return count;
}

Shape windows(const Node& node, const Shape& x, std::int64_t channels) {
  return {channels,
          window_count(x.height, node.kernel[0], node.padding[0], node.stride, node.ceil, "height"),
          window_count(x.width, node.kernel[1], node.padding[1], node.stride, node.ceil, "width")};
}

void require_inputs(const Node& node) {
  const bool joins = node.type == NodeType::add || node.type == NodeType::concat;
  if (joins ? node.from.size() >= 2 : node.from.size() == 1) return;
  throw ShapeProblem{
      fmt::format("found {} inputs, expected {}", node.from.size(), joins ? "two or more" : "one")};
}

Shape concat_shape(const std::vector<Shape>& inputs) {
  Shape sum = inputs.front();
  sum.channels = 0;
  for (const Shape& x : inputs) {
    if (x.height != sum.height || x.width != sum.width) {
      throw ShapeProblem{fmt::format("found inputs {} and {}, expected equal heights and widths",
                                     to_string(inputs.front()), to_string(x))};
    }
    sum.channels += x.channels;
  }
  return sum;
}

bool is_token_softmax(const Node& node) { return node.type == NodeType::softmax && node.units > 0; }

bool reads_any_order(NodeType type) {
  return type == NodeType::relu || type == NodeType::dropout || type == NodeType::add;
}

void require_order(const Node& node, const std::vector<Shape>& inputs) {
  for (const Shape& x : inputs) {
    const bool tokens = x.order == MapOrder::tokens;
    if (reads_any_order(node.type) || tokens == is_for_tokens(node)) continue;
    throw ShapeProblem{
        fmt::format("found an input {}, expected one whose elements lie {}", to_string(x),
                    tokens ? "channel by channel" : "token by token, as embed makes it")};
  }
}

Shape attention_shape(const Node& node, const Shape& x) {
  const std::int64_t width = x.channels / 3;
  if (x.channels % 3 != 0) {
    throw ShapeProblem{fmt::format(
        "found {} channels, expected a multiple of 3 for queries, keys and values", x.channels)};
  }
  if (width % node.heads != 0) {
    throw ShapeProblem{
        fmt::format("found {} heads, expected a divisor of the width {}", node.heads, width)};
  }
  return {width, x.height, 1, MapOrder::tokens};
}

Shape embed_shape(const Node& node, const Shape& x) {
  if (node.positions == Positions::learned && x.height > node.block) {
    throw ShapeProblem{fmt::format("found {} steps, expected at most {}, the block of positions",
                                   x.height, node.block)};
  }
  return {node.units, x.height, 1, MapOrder::tokens};
}

Shape inferred(const Node& node, const std::vector<Shape>& inputs) {
  const Shape& x = inputs.front();
  switch (node.type) {
    case NodeType::conv:
      if (x.channels % node.groups != 0 || node.channels % node.groups != 0) {
        throw ShapeProblem{fmt::format("found {} groups, expected a divisor of {} and {} channels",
                                       node.groups, x.channels, node.channels)};
      }
      return windows(node, x, node.channels);
    case NodeType::pool:
      if (node.padding[0] >= node.kernel[0] || node.padding[1] >= node.kernel[1]) {
        throw ShapeProblem{fmt::format("found a padding of {}, expected less than the kernel",
                                       std::max(node.padding[0], node.padding[1]))};
      }
      return windows(node, x, x.channels);
    case NodeType::fc:
      return {node.units, 1, 1};
    case NodeType::add:
      for (const Shape& other : inputs) {
        if (other == x) continue;
        throw ShapeProblem{fmt::format("found inputs {} and {}, expected equal shapes",
                                       to_string(x), to_string(other))};
      }
      return x;
    case NodeType::concat:
      return concat_shape(inputs);
    case NodeType::subsample:
      return {node.channels, (x.height + node.stride - 1) / node.stride,
              (x.width + node.stride - 1) / node.stride};
    case NodeType::lstm:
      if (x.width != 1) {
        throw ShapeProblem{
            fmt::format("found an input {}, expected [elements,steps,1]", to_string(x))};
      }
      return {node.units, node.all ? x.height : 1, 1};
    case NodeType::embed:
      return embed_shape(node, x);
    case NodeType::linear:
      return {node.units, x.height, 1, MapOrder::tokens};
    case NodeType::attention:
      return attention_shape(node, x);
    case NodeType::input:
      throw ShapeProblem{"found a second input, expected one"};
    case NodeType::relu:
    case NodeType::lrn:
    case NodeType::bn:
    case NodeType::dropout:
    case NodeType::softmax:
    case NodeType::norm:
    case NodeType::gelu:
      break;
  }
  return x;
}

// In std::int64_t, or in double for a node whose sizes have not been checked yet, because their
// product may exceed 64 bits.
template <class Count>
Count filter_count(const Graph& graph, int index) {
  const Node& node = graph.node(index);
  const Shape& x = graph.input_shape(index);
  const auto channels = static_cast<Count>(x.channels);
  if (node.type == NodeType::linear) return channels;
  if (node.type == NodeType::fc) {
    return channels * static_cast<Count>(x.height) * static_cast<Count>(x.width);
  }
  return static_cast<Count>(node.kernel[0]) * static_cast<Count>(node.kernel[1]) * channels /
         static_cast<Count>(node.groups);
}

// The number of a node's parameters, in the same types.
template <class Count>
Count parameter_count(const Graph& graph, int index) {
  const Node& node = graph.node(index);
  const auto outputs = static_cast<Count>(node.shape.channels);
  switch (node.type) {
    case NodeType::conv:
    case NodeType::fc:
    case NodeType::linear:
      return outputs * filter_count<Count>(graph, index) + (node.bias ? outputs : 0);
    case NodeType::bn:
      return 2 * outputs;
    case NodeType::norm:
      return (node.bias ? 2 : 1) * outputs;
    case NodeType::embed: {
      const std::int64_t places = node.positions == Positions::learned ? node.block : 0;
      return outputs * static_cast<Count>(graph.node(0).tokens + places + node.segments);
    }
    case NodeType::softmax: {
      const auto units = static_cast<Count>(node.units);
      return (node.tied.empty() ? units * outputs : 0) + (node.bias ? units : 0);
    }
    case NodeType::lstm: {
      const auto units = static_cast<Count>(node.units);
      const auto inputs = static_cast<Count>(graph.input_shape(index).channels);
      return 4 * (units * (inputs + units) + units);
    }
    case NodeType::input:
    case NodeType::pool:
    case NodeType::relu:
    case NodeType::lrn:
    case NodeType::dropout:
    case NodeType::add:
    case NodeType::concat:
    case NodeType::subsample:
    case NodeType::gelu:
    case NodeType::attention:
      break;
  }
  return 0;
}

}  // namespace

std::string_view to_string(NodeType type) { return kNodeTypeNames[static_cast<std::size_t>(type)]; }

std::vector<std::string> node_type_names() {
  return {kNodeTypeNames.begin(), kNodeTypeNames.end()};
}

bool is_for_tokens(const Node& node) {
  switch (node.type) {
    case NodeType::embed:
    case NodeType::linear:
    case NodeType::norm:
    case NodeType::gelu:
    case NodeType::attention:
      return true;
    default:
      return is_token_softmax(node);
  }
}

std::string to_string(const Shape& shape) {
  if (shape.order == MapOrder::tokens) {
    return fmt::format("[{} tokens x {}]", shape.height, shape.channels);
  }
  return fmt::format("[{},{},{}]", shape.channels, shape.height, shape.width);
}

Graph::Graph(std::string name, Shape input, std::int64_t tokens) : name_(std::move(name)) {
  const auto sane = [](std::int64_t size) { return size >= 1 && size <= 1'000'000; };
  if (!sane(input.channels) || !sane(input.height) || !sane(input.width) ||
      input.numbers() > kMostNumbers) {
    throw data_error("{}: input: found {}, expected sizes of at least 1 and at most {} elements",
                     name_, to_string(input), kMostNumbers);
  }
  if (tokens > 0) {
    if (input.channels != 1 || input.width != 1 || tokens > kMostTokens) {
      throw data_error("{}: input: found {} of {} tokens, expected [1,steps,1] of at most {}",
                       name_, to_string(input), tokens, kMostTokens);
    }
    input.order = MapOrder::tokens;
  }
  nodes_.push_back({.name = "input", .tokens = tokens, .shape = input});
  consumers_.emplace_back();
}

Error Graph::node_error(const Node& node, const std::string& text) const {
  return data_error("{}: node {}: {}", name_, quote(node.name), text);
}

// Only an embed reads the input's tokens, and a tied softmax fits its embed.
void Graph::check_tokens(const Node& node) const {
  const bool of_input = std::ranges::find(node.from, 0) != node.from.end();
  if (reads_tokens() && of_input != (node.type == NodeType::embed)) {
    throw ShapeProblem{of_input ? "found the input's tokens, expected the map of an embed"
                                : "found a map, expected the input's tokens"};
  }
  if (node.type != NodeType::softmax) return;
  if (node.units == 0 && (node.bias || !node.tied.empty() || node.smoothing > 0)) {
    throw ShapeProblem{
        "found no units, expected the number of tokens beside bias, tied, smoothing"};
  }
  if (node.tied.empty()) return;
  const auto found = std::ranges::find(nodes_, node.tied, &Node::name);
  const std::int64_t width = this->node(node.from.front()).shape.channels;
  if (found == nodes_.end() || found->type != NodeType::embed || found->units != width ||
      nodes_.front().tokens != node.units) {
    throw ShapeProblem{fmt::format("found tied {}, expected the name of an embed of {} tokens x {}",
                                   quote(node.tied), node.units, width)};
  }
}

Shape Graph::shape_of(const Node& node) const {
  try {
    require_inputs(node);
    std::vector<Shape> inputs;
    for (const int from : node.from) inputs.push_back(this->node(from).shape);
    require_order(node, inputs);
    check_tokens(node);
    return inferred(node, inputs);
  } catch (const ShapeProblem& problem) {
    throw node_error(node, problem.text);
  }
}

int Graph::add(Node node) {
  if (nodes_.size() > kMostNodes) {
    throw node_error(node, fmt::format("expected at most {} nodes", kMostNodes));
  }
  for (const int from : node.from) HETSGD_CHECK(from >= 0 && from < size());
  if (node.type == NodeType::pool && node.global && !node.from.empty()) {
    const Shape& x = this->node(node.from.front()).shape;
    node.kernel = {x.height, x.width};
    node.stride = 1;
    node.padding = {0, 0};
  }
  node.shape = shape_of(node);
  const Shape& y = node.shape;
  if (static_cast<double>(y.channels) * static_cast<double>(y.height) *
          static_cast<double>(y.width) >
      static_cast<double>(kMostNumbers)) {
    throw node_error(node, fmt::format("found an output {}, expected at most {} elements",
                                       to_string(y), kMostNumbers));
  }
  const int index = size();
  for (const int from : node.from) consumers_[at(from)].push_back(index);
  nodes_.push_back(std::move(node));
  consumers_.emplace_back();
  if (const double count = parameter_count<double>(*this, index);
      count > static_cast<double>(kMostParameters)) {
    throw node_error(nodes_.back(), fmt::format("found {} parameters, expected at most {}",
                                                format_count(count), kMostParameters));
  }
  return index;
}

void Graph::finish() const {
  if (nodes_.back().type != NodeType::softmax) {
    throw node_error(nodes_.back(), fmt::format("found {} at the end, expected softmax",
                                                to_string(nodes_.back().type)));
  }
  for (int i = 0; i + 1 < size(); ++i) {
    if (node(i).type == NodeType::softmax) {
      throw node_error(node(i), "found softmax, expected it at the end only");
    }
    if (consumers(i).empty()) {
      throw node_error(node(i), "found an output that no node uses, expected at least one user");
    }
  }
}

const Shape& Graph::input_shape(int index) const { return node(node(index).from.front()).shape; }

std::int64_t Graph::parameters(int index) const {
  return parameter_count<std::int64_t>(*this, index);
}

std::int64_t Graph::parameters() const {
  std::int64_t sum = 0;
  for (int i = 0; i < size(); ++i) sum += parameters(i);
  return sum;
}

std::int64_t filter_size(const Graph& graph, int index) {
  return filter_count<std::int64_t>(graph, index);
}

std::int64_t sequence_steps(const Graph& graph, int index) {
  return graph.input_shape(index).height;
}

std::optional<int> tied_embed(const Graph& graph, int index) {
  const std::string& name = graph.node(index).tied;
  if (name.empty()) return std::nullopt;
  const auto found = std::ranges::find(graph.nodes(), name, &Node::name);
  return static_cast<int>(found - graph.nodes().begin());
}

bool is_causal(const Graph& graph) {
  return std::ranges::none_of(graph.nodes(), [](const Node& node) {
    return node.type == NodeType::attention && !node.causal;
  });
}

std::int64_t targets_of_row(const Graph& graph, std::int64_t steps) {
  if (is_causal(graph)) return steps;
  return masked_tokens(graph.nodes().back().masked, steps);
}

std::int64_t masked_tokens(double share, std::int64_t steps) {
  const double wanted = std::floor(share * static_cast<double>(steps) + 0.5);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(wanted), 1, steps);
}

}  // namespace hetsgd
