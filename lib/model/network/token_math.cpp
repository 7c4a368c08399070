#include "model/network/token_math.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "graph/variants.hpp"
#include "linalg/output_layer_kernels.hpp"

namespace hetsgd {
namespace {

std::size_t width_of(const Graph& graph, int node) {
  return static_cast<std::size_t>(graph.node(node).shape.channels);
}

GeluLaw law_of(const Node& node) {
  return node.form == GeluForm::exact ? GeluLaw::exact : GeluLaw::tanh;
}

// The output layer that the last node is, without gradients.
template <class Real>
SoftmaxLayer<Real> layer_of(const Graph& graph, const Real* parameters, const TokenBatch& batch,
                            const Real* X) {
  const int last = graph.size() - 1;
  const Node& node = graph.node(last);
  const std::vector<std::size_t> offsets = parameter_offsets(graph);
  const std::optional<int> tied = tied_embed(graph, last);
  return {.inputs = width_of(graph, last),
          .outputs = static_cast<std::size_t>(node.units),
          .row = batch.position.data(),
          .input = X,
          .weight = parameters + offsets[at(tied.value_or(last))],
          .bias = node.bias ? parameters + offsets.back() - node.units : nullptr,
          .smoothing = static_cast<Real>(node.smoothing)};
}

}  // namespace

template <class Real>
TokenMath<Real>::TokenMath(BasicDevice<Real>& device, const Graph& graph)
    : device_(device),
      graph_(graph),
      tokens_(kernels<BasicTokenKernels<Real>>(device)),
      attention_(kernels<BasicAttentionKernels<Real>>(device)),
      image_(kernels<BasicImageKernels<Real>>(device)),
      parameters_(parameter_offsets(graph)) {}

template <class Real>
void TokenMath<Real>::forward(int index, const GraphPass<Real>& pass, const NodeTensors<Real>& t) {
  const Node& node = graph_.node(index);
  const std::size_t tokens = pass.rows.tokens, width = width_of(graph_, index);
  const Real* const X = t.inputs.front();
  const Real* const w = pass.parameters + parameters_[at(index)];
  switch (node.type) {
    case NodeType::embed:
      return tokens_.embed(embed_shape(index), pass.rows, X, w, t.output);
    case NodeType::linear:
      return linear_forward(index, pass, t);
    case NodeType::norm:
      return tokens_.norm(tokens, width, X, static_cast<Real>(node.epsilon), w,
                          node.bias ? w + width : nullptr, t.mask, t.output);
    case NodeType::gelu:
      return tokens_.gelu(law_of(node), tokens * width, X, t.output);
    case NodeType::attention:
      return attention_.attention(attention_shape(index, pass), pass.rows, X, t.mask, t.output);
    default:
      HETSGD_CHECK(false);  // not for tokens alone
  }
}

template <class Real>
void TokenMath<Real>::backward(int index, const GraphPass<Real>& pass, const NodeTensors<Real>& t) {
  const Node& node = graph_.node(index);
  const std::size_t tokens = pass.rows.tokens, width = width_of(graph_, index);
  const Real* const X = t.inputs.front();
  const Real* const w = pass.parameters + parameters_[at(index)];
  Real* const to = pass.to + parameters_[at(index)];
  Real* const dX = t.input_gradients.front();
  const Real beta = t.input_betas.front();
  switch (node.type) {
    case NodeType::embed: {
      const bool tied = tied_embed(graph_, graph_.size() - 1) == index;
      return tokens_.embed_gradient(embed_shape(index), pass.rows, X, t.output_gradient, pass.alpha,
                                    tied ? Real(1) : pass.beta, pass.beta, to);
    }
    case NodeType::linear:
      return linear_backward(index, pass, t);
    case NodeType::norm:
      return tokens_.norm_gradient(tokens, width, X, t.mask, w, t.output_gradient, beta, dX,
                                   pass.alpha, pass.beta, to, node.bias ? to + width : nullptr);
    case NodeType::gelu:
      return tokens_.gelu_gradient(law_of(node), tokens * width, X, t.output_gradient, beta, dX);
    case NodeType::attention:
      return attention_.attention_gradient(attention_shape(index, pass), pass.rows, X, t.mask,
                                           t.output, t.output_gradient, beta, dX);
    default:
      HETSGD_CHECK(false);  // not for tokens alone
  }
}

// Y begins as the bias, which a row of stride 0 repeats.
template <class Real>
void TokenMath<Real>::linear_forward(int index, const GraphPass<Real>& pass,
                                     const NodeTensors<Real>& t) const {
  const auto in = static_cast<std::size_t>(filter_size(graph_, index));
  const std::size_t out = width_of(graph_, index), tokens = pass.rows.tokens;
  const Real* const w = pass.parameters + parameters_[at(index)];
  const bool bias = graph_.node(index).bias;
  if (bias) image_.add_rows(tokens, out, {w + out * in, 0}, Real(0), {t.output, out});
  device_.gemm(Transpose::no, Transpose::yes, tokens, out, in, Real(1), t.inputs.front(), in, w, in,
               bias ? Real(1) : Real(0), t.output, out);
}

template <class Real>
void TokenMath<Real>::linear_backward(int index, const GraphPass<Real>& pass,
                                      const NodeTensors<Real>& t) const {
  const auto in = static_cast<std::size_t>(filter_size(graph_, index));
  const std::size_t out = width_of(graph_, index), tokens = pass.rows.tokens;
  if (Real* const dX = t.input_gradients.front()) {
    device_.gemm(Transpose::no, Transpose::no, tokens, in, out, Real(1), t.output_gradient, out,
                 pass.parameters + parameters_[at(index)], in, t.input_betas.front(), dX, in);
  }
  Real* const to = pass.to + parameters_[at(index)];
  device_.gemm(Transpose::yes, Transpose::no, out, in, tokens, pass.alpha, t.output_gradient, out,
               t.inputs.front(), in, pass.beta, to, in);
  if (!graph_.node(index).bias) return;
  if (pass.beta == Real(0)) device_.fill(out, Real(0), to + out * in);
  device_.column_sums(tokens, out, pass.alpha, t.output_gradient, to + out * in);
}

template <class Real>
AttentionShape TokenMath<Real>::attention_shape(int index, const GraphPass<Real>& pass) const {
  const Node& node = graph_.node(index);
  const DropoutKey drop{pass.seed, pass.draw, static_cast<std::uint32_t>(index),
                        pass.drops ? node.p : 0};
  return {.heads = static_cast<std::size_t>(node.heads),
          .width = width_of(graph_, index),
          .causal = node.causal,
          .drop = drop,
          .block = std::max(static_cast<std::size_t>(most_steps(graph_)),
                            static_cast<std::size_t>(*std::max_element(
                                pass.rows.length, pass.rows.length + pass.rows.rows)))};
}

template <class Real>
EmbedShape TokenMath<Real>::embed_shape(int index) const {
  const Node& node = graph_.node(index);
  const std::int64_t block = node.positions == Positions::learned ? node.block : 0;
  return {.tokens = static_cast<std::size_t>(graph_.node(0).tokens),
          .width = width_of(graph_, index),
          .block = static_cast<std::size_t>(block),
          .segments = static_cast<std::size_t>(node.segments)};
}

template <class Real>
DeferredSum learn_tokens(BasicDevice<Real>& device, const Graph& graph, const GraphPass<Real>& pass,
                         const TokenBatch& batch, const Real* X, Real* Y) {
  SoftmaxLayer<Real> layer = layer_of(graph, pass.parameters, batch, X);
  layer.scale = Real(1) / static_cast<Real>(batch.targets());
  layer.alpha = pass.alpha;
  layer.beta = pass.beta;
  layer.weight_gradient = pass.to + (layer.weight - pass.parameters);
  if (layer.bias) layer.bias_gradient = pass.to + (layer.bias - pass.parameters);
  layer.input_gradient = Y;
  device.fill(pass.rows.tokens * layer.inputs, Real(0), Y);
  return kernels<BasicOutputLayerKernels<Real>>(device).softmax_layer(
      device.stage(batch.labels<Real>(layer.outputs)), layer);
}

template <class Real>
DeferredSum rank_tokens(BasicDevice<Real>& device, const Graph& graph, const Real* parameters,
                        const TokenBatch& batch, const Real* X, std::size_t k,
                        std::uint32_t* best) {
  const SoftmaxLayer<Real> layer = layer_of(graph, parameters, batch, X);
  return kernels<BasicOutputLayerKernels<Real>>(device).softmax_ranks(
      device.stage(batch.labels<Real>(layer.outputs)), layer, k, best);
}

#define HETSGD_INSTANTIATE(Real)                                                                  \
  template class TokenMath<Real>;                                                                 \
  template DeferredSum learn_tokens<Real>(BasicDevice<Real>&, const Graph&,                       \
                                          const GraphPass<Real>&, const TokenBatch&, const Real*, \
                                          Real*);                                                 \
  template DeferredSum rank_tokens<Real>(BasicDevice<Real>&, const Graph&, const Real*,           \
                                         const TokenBatch&, const Real*, std::size_t,             \
                                         std::uint32_t*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd
