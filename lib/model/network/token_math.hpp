// The mathematics of the nodes that read tokens: embed, linear, norm, gelu, attention, and the
// softmax of tokens at the end.
//
// Parameters: embed: E [tokens x C], P [block x C], S [segments x C]; linear: weights [outputs x
//             inputs], then the bias if there is one; norm: scale, then shift if there is one;
//             softmax: weights [V x C] unless they are tied to an embed, then the bias if there is
//             one.
// Tied      : the softmax adds its part to the gradient of E in the forward pass, and reads E
//             before it moves. The embed, whose backward pass is the last to use E, adds the rest.
// Kept      : norm: mean and 1 / deviation of each token; attention: the logarithm of the sum of
//             exponentials of each head and token.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.hpp"
#include "linalg/attention_kernels.hpp"
#include "linalg/device.hpp"
#include "linalg/image_kernels.hpp"
#include "linalg/token_kernels.hpp"
#include "model/network/graph_pass.hpp"
#include "model/network/token_batch.hpp"

namespace hetsgd {

template <class Real>
class TokenMath {
 public:
  // `graph` and `device` must outlive it. Throws Error(device) for a device that lacks the kernels.
  TokenMath(BasicDevice<Real>& device, const Graph& graph);

  // As NodeMath, for nodes that are for tokens alone, but the softmax.
  void forward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& t);
  void backward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& t);

 private:
  void linear_forward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& t) const;
  void linear_backward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& t) const;
  AttentionShape attention_shape(int node, const GraphPass<Real>& pass) const;
  EmbedShape embed_shape(int node) const;

  BasicDevice<Real>& device_;
  const Graph& graph_;
  BasicTokenKernels<Real>& tokens_;
  BasicAttentionKernels<Real>& attention_;
  BasicImageKernels<Real>& image_;
  std::vector<std::size_t> parameters_;
};

// The softmax of tokens at the end of the graph. X is the map that it reads. Y <- the gradient of
// the mean loss over the batch's targets by X. Adds the gradient by its parameters to pass.to, and
// returns the sum of the losses.
template <class Real>
DeferredSum learn_tokens(BasicDevice<Real>& device, const Graph& graph, const GraphPass<Real>& pass,
                         const TokenBatch& batch, const Real* X, Real* Y);
// Returns the sum of the losses without smoothing. best [targets x k], device memory <- the best
// tokens at each target.
template <class Real>
DeferredSum rank_tokens(BasicDevice<Real>& device, const Graph& graph, const Real* parameters,
                        const TokenBatch& batch, const Real* X, std::size_t k, std::uint32_t* best);

}  // namespace hetsgd
