#include "model/network/node_math.hpp"

#include <utility>

#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd {
namespace {

std::size_t size_of(std::int64_t number) { return static_cast<std::size_t>(number); }

// The common part of convolution and pooling windows: how a window lies on maps.
template <class Window>
Window window_of(const Graph& graph, int index) {
  const Node& node = graph.node(index);
  const Shape& x = graph.input_shape(index);
  Window window;
  window.in_height = size_of(x.height);
  window.in_width = size_of(x.width);
  window.out_height = size_of(node.shape.height);
  window.out_width = size_of(node.shape.width);
  window.kernel_height = size_of(node.kernel[0]);
  window.kernel_width = size_of(node.kernel[1]);
  window.stride = size_of(node.stride);
  window.padding_height = size_of(node.padding[0]);
  window.padding_width = size_of(node.padding[1]);
  return window;
}

ConvolutionShape convolution_shape(const Graph& graph, int index) {
  auto shape = window_of<ConvolutionShape>(graph, index);
  shape.in_channels = size_of(graph.input_shape(index).channels);
  shape.out_channels = size_of(graph.node(index).shape.channels);
  shape.groups = size_of(graph.node(index).groups);
  return shape;
}

PoolShape pool_shape(const Graph& graph, int index) {
  auto shape = window_of<PoolShape>(graph, index);
  shape.channels = size_of(graph.input_shape(index).channels);
  shape.maximum = graph.node(index).pool == PoolKind::max;
  shape.count_padding = graph.node(index).count_padding;
  return shape;
}

template <class Real>
ResponseNormalisation<Real> response_law(const Node& node) {
  return {.size = static_cast<std::size_t>(node.size),
          .alpha = static_cast<Real>(node.alpha),
          .beta = static_cast<Real>(node.beta),
          .k = static_cast<Real>(node.k)};
}

template <class F>
std::vector<std::size_t> offsets_of(const Graph& graph, F&& size) {
  std::vector<std::size_t> offsets{0};
  for (int node = 0; node < graph.size(); ++node) offsets.push_back(offsets.back() + size(node));
  return offsets;
}

}  // namespace

std::vector<std::size_t> parameter_offsets(const Graph& graph) {
  return offsets_of(graph, [&](int node) { return size_of(graph.parameters(node)); });
}

std::vector<std::size_t> statistics_offsets(const Graph& graph) {
  return offsets_of(graph, [&](int node) {
    const Node& one = graph.node(node);
    return one.type == NodeType::bn ? 2 * size_of(one.shape.channels) : 0;
  });
}

template <class Real>
NodeMath<Real>::NodeMath(BasicDevice<Real>& device, const Graph& graph, std::int64_t batch,
                         std::shared_ptr<LstmMath<Real>> lstm)
    : device_(device),
      graph_(graph),
      batch_(size_of(batch)),
      convolution_(kernels<BasicConvolutionKernels<Real>>(device)),
      image_(kernels<BasicImageKernels<Real>>(device)),
      normalisation_(kernels<BasicNormalisationKernels<Real>>(device)),
      lstm_(lstm ? std::move(lstm) : std::make_shared<LstmMath<Real>>(device)),
      tokens_(graph.reads_tokens() ? std::make_unique<TokenMath<Real>>(device, graph) : nullptr),
      parameters_(parameter_offsets(graph)),
      statistics_(statistics_offsets(graph)) {}

template <class Real>
const Real* NodeMath<Real>::parameters(int node, const GraphPass<Real>& pass) const {
  return pass.parameters + parameters_[at(node)];
}

template <class Real>
Real* NodeMath<Real>::target(int node, const GraphPass<Real>& pass) const {
  return pass.to + parameters_[at(node)];
}

template <class Real>
const Real* NodeMath<Real>::statistics(int node, const GraphPass<Real>& pass,
                                       const NodeTensors<Real>& tensors) const {
  return pass.statistics == nullptr ? tensors.mask : pass.statistics + statistics_[at(node)];
}

template <class Real>
void NodeMath<Real>::forward(int index, const GraphPass<Real>& pass, const NodeTensors<Real>& t) {
  const Node& node = graph_.node(index);
  if (is_for_tokens(node)) return tokens_->forward(index, pass, t);
  const Shape& x = graph_.input_shape(index);
  const std::size_t count = elements(index, pass);
  const std::size_t channels = size_of(x.channels), pixels = size_of(x.height * x.width);
  const Real* const X = t.inputs.front();
  const Real* const w = parameters(index, pass);
  switch (node.type) {
    case NodeType::conv: {
      const ConvolutionShape shape = convolution_shape(graph_, index);
      return convolution_.forward(shape, batch_, X, w, node.bias ? w + shape.weights() : nullptr,
                                  t.output);
    }
    case NodeType::fc:
      return fc_forward(index, pass, t);
    case NodeType::pool:
      return image_.pool(pool_shape(graph_, index), batch_, X, t.output,
                         reinterpret_cast<std::uint8_t*>(t.mask));
    case NodeType::relu:
      return image_.relu(count, X, t.output);
    case NodeType::lrn:
      return normalisation_.response_normalisation(response_law<Real>(node), batch_, channels,
                                                   pixels, X, t.output);
    case NodeType::bn:
      if (pass.statistics == nullptr) {
        normalisation_.channel_statistics(batch_, channels, pixels, X, t.mask);
      }
      return normalisation_.normalise(batch_, channels, pixels, X, statistics(index, pass, t),
                                      static_cast<Real>(node.epsilon), w, w + channels, t.output);
    case NodeType::dropout:
      if (!pass.drops) return device_.copy(count, X, t.output);
      return image_.dropout(
          count, DropoutKey{pass.seed, pass.draw, static_cast<std::uint32_t>(index), node.p}, X,
          t.output, reinterpret_cast<std::uint8_t*>(t.mask));
    case NodeType::add:
    case NodeType::concat:
      return join_forward(index, pass, t);
    case NodeType::subsample:
      return image_.subsample(batch_, channels, size_of(x.height), size_of(x.width),
                              size_of(node.channels), size_of(node.stride), X, t.output);
    case NodeType::lstm:
      return lstm_->forward(lstm_shape(index, pass), X, w, t.mask, t.output);
    default:
      HETSGD_CHECK(false);  // an end of the graph
  }
}

template <class Real>
void NodeMath<Real>::backward(int index, const GraphPass<Real>& pass, const NodeTensors<Real>& t) {
  const Node& node = graph_.node(index);
  if (is_for_tokens(node)) return tokens_->backward(index, pass, t);
  const Shape& x = graph_.input_shape(index);
  const std::size_t count = elements(index, pass);
  const std::size_t channels = size_of(x.channels), pixels = size_of(x.height * x.width);
  Real* const dX = t.input_gradients.front();
  const Real beta = t.input_betas.front();
  switch (node.type) {
    case NodeType::conv:
      return conv_backward(index, pass, t);
    case NodeType::fc:
      return fc_backward(index, pass, t);
    case NodeType::bn:
      return normalisation_.normalise_gradient(
          batch_, channels, pixels, t.inputs.front(), t.mask, static_cast<Real>(node.epsilon),
          parameters(index, pass), t.output_gradient, beta, dX, pass.alpha, pass.beta,
          target(index, pass), target(index, pass) + channels);
    case NodeType::lstm:
      return lstm_->backward(lstm_shape(index, pass), t.inputs.front(), parameters(index, pass),
                             t.mask, t.output_gradient, pass.alpha, pass.beta, target(index, pass),
                             beta, dX);
    case NodeType::add:
    case NodeType::concat:
      return join_backward(index, pass, t);
    default:
      break;
  }
  if (dX == nullptr) return;
  switch (node.type) {
    case NodeType::pool:
      return image_.pool_gradient(pool_shape(graph_, index), batch_, t.inputs.front(), t.output,
                                  reinterpret_cast<const std::uint8_t*>(t.mask), t.output_gradient,
                                  beta, dX);
    case NodeType::relu:
      return image_.relu_gradient(count, t.output, t.output_gradient, beta, dX);
    case NodeType::lrn:
      return normalisation_.response_normalisation_gradient(response_law<Real>(node), batch_,
                                                            channels, pixels, t.inputs.front(),
                                                            t.output, t.output_gradient, beta, dX);
    case NodeType::dropout:
      return image_.dropout_gradient(count, node.p, reinterpret_cast<const std::uint8_t*>(t.mask),
                                     t.output_gradient, beta, dX);
    case NodeType::subsample:
      return image_.subsample_gradient(batch_, channels, size_of(x.height), size_of(x.width),
                                       size_of(node.channels), size_of(node.stride),
                                       t.output_gradient, beta, dX);
    default:
      HETSGD_CHECK(false);  // an end of the graph
  }
}

template <class Real>
void NodeMath<Real>::conv_backward(int index, const GraphPass<Real>& pass,
                                   const NodeTensors<Real>& t) const {
  const ConvolutionShape shape = convolution_shape(graph_, index);
  if (Real* const dX = t.input_gradients.front()) {
    convolution_.input_gradient(shape, batch_, t.output_gradient, parameters(index, pass),
                                t.input_betas.front(), dX);
  }
  Real* const to = target(index, pass);
  convolution_.parameter_gradient(shape, batch_, t.inputs.front(), t.output_gradient, pass.alpha,
                                  pass.beta, to,
                                  graph_.node(index).bias ? to + shape.weights() : nullptr);
}

// Y begins as the bias, which a row of stride 0 repeats.
template <class Real>
void NodeMath<Real>::fc_forward(int index, const GraphPass<Real>& pass,
                                const NodeTensors<Real>& t) const {
  const std::size_t in = size_of(filter_size(graph_, index)),
                    out = size_of(graph_.node(index).units);
  const Real* const w = parameters(index, pass);
  const bool bias = graph_.node(index).bias;
  if (bias) image_.add_rows(batch_, out, {w + out * in, 0}, Real(0), {t.output, out});
  device_.gemm(Transpose::no, Transpose::yes, batch_, out, in, Real(1), t.inputs.front(), in, w, in,
               bias ? Real(1) : Real(0), t.output, out);
}

template <class Real>
void NodeMath<Real>::fc_backward(int index, const GraphPass<Real>& pass,
                                 const NodeTensors<Real>& t) const {
  const std::size_t in = size_of(filter_size(graph_, index)),
                    out = size_of(graph_.node(index).units);
  if (Real* const dX = t.input_gradients.front()) {
    device_.gemm(Transpose::no, Transpose::no, batch_, in, out, Real(1), t.output_gradient, out,
                 parameters(index, pass), in, t.input_betas.front(), dX, in);
  }
  Real* const to = target(index, pass);
  device_.gemm(Transpose::yes, Transpose::no, out, in, batch_, pass.alpha, t.output_gradient, out,
               t.inputs.front(), in, pass.beta, to, in);
  if (!graph_.node(index).bias) return;
  if (pass.beta == Real(0)) device_.fill(out, Real(0), to + out * in);
  device_.column_sums(batch_, out, pass.alpha, t.output_gradient, to + out * in);
}

template <class Real>
std::size_t NodeMath<Real>::elements(int index, const GraphPass<Real>& pass) const {
  const Shape& shape = graph_.node(index).shape;
  return shape.order == MapOrder::tokens ? pass.rows.tokens * size_of(shape.channels)
                                         : batch_ * size_of(shape.numbers());
}

template <class Real>
LstmShape NodeMath<Real>::lstm_shape(int index, const GraphPass<Real>& pass) const {
  return {.batch = batch_,
          .numbers = size_of(graph_.input_shape(index).channels),
          .steps = size_of(sequence_steps(graph_, index)),
          .units = size_of(graph_.node(index).units),
          .all = graph_.node(index).all,
          .lengths = pass.lengths,
          .check = pass.check};
}

// Rows are samples, or tokens: for an add whole rows, for a concat their part of the output's
// channels.
template <class Real>
void NodeMath<Real>::join_forward(int index, const GraphPass<Real>& pass,
                                  const NodeTensors<Real>& t) const {
  const Node& node = graph_.node(index);
  const std::size_t rows = rows_of(node, pass), outputs = elements(index, pass) / rows;
  std::size_t at = 0;
  for (std::size_t i = 0; i < t.inputs.size(); ++i) {
    const std::size_t width = elements(node.from[i], pass) / rows;
    const Real beta = node.type == NodeType::add && i > 0 ? Real(1) : Real(0);
    image_.add_rows(rows, width, {t.inputs[i], width}, beta, {t.output + at, outputs});
    if (node.type == NodeType::concat) at += width;
  }
}

// In place, the gradient of an add's first input is already there.
template <class Real>
void NodeMath<Real>::join_backward(int index, const GraphPass<Real>& pass,
                                   const NodeTensors<Real>& t) const {
  const Node& node = graph_.node(index);
  const std::size_t rows = rows_of(node, pass), outputs = elements(index, pass) / rows;
  std::size_t at = 0;
  for (std::size_t i = 0; i < t.input_gradients.size(); ++i) {
    const std::size_t width = elements(node.from[i], pass) / rows;
    Real* const dX = t.input_gradients[i];
    if (dX != nullptr && dX != t.output_gradient) {
      image_.add_rows(rows, width, {t.output_gradient + at, outputs}, t.input_betas[i],
                      {dX, width});
    }
    if (node.type == NodeType::concat) at += width;
  }
}

template class NodeMath<float>;
template class NodeMath<double>;

}  // namespace hetsgd
