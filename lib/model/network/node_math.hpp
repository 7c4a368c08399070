// The mathematics of a graph's nodes, forward and backward, with the kernels of one device.
//
// Parameters: one flat vector, node after node in the order of the list. conv, fc: weights [outputs
//             x inputs], then the bias if there is one; bn: scale, shift; lstm: weights
//             [4 units x (inputs + units)], gates in the order input, forget, cell, output, bias.
//             Nodes for tokens: token_math.hpp.
// Numbers   : Real is float in training and double in checks of gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.hpp"
#include "linalg/convolution_kernels.hpp"
#include "linalg/device.hpp"
#include "linalg/image_kernels.hpp"
#include "linalg/normalisation_kernels.hpp"
#include "model/network/graph_pass.hpp"
#include "model/network/lstm_math.hpp"
#include "model/network/token_math.hpp"

namespace hetsgd {

// Offset of each bn node's mean and variance [2 x channels] in the graph's statistics; one more
// entry for the end.
std::vector<std::size_t> statistics_offsets(const Graph& graph);

// Computes all nodes but input and softmax, which the callers of a pass implement (GraphEnds).
template <class Real>
class NodeMath {
 public:
  // `graph` and `device` must outlive it. Several objects may share the scratch of `lstm` if only
  // one computes at a time; null: it has its own. Throws Error(device) for a device that lacks the
  // kernels.
  NodeMath(BasicDevice<Real>& device, const Graph& graph, std::int64_t batch,
           std::shared_ptr<LstmMath<Real>> lstm = nullptr);

  void forward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& tensors);
  // backward() reads a node's parameters before it moves them. Neither function may run twice at
  // the same time.
  void backward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& tensors);

 private:
  const Real* parameters(int node, const GraphPass<Real>& pass) const;
  Real* target(int node, const GraphPass<Real>& pass) const;
  const Real* statistics(int node, const GraphPass<Real>& pass,
                         const NodeTensors<Real>& tensors) const;
  void conv_backward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& t) const;
  void fc_forward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& t) const;
  void fc_backward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& t) const;
  // Elements of the node's map in this pass.
  std::size_t elements(int node, const GraphPass<Real>& pass) const;
  std::size_t rows_of(const Node& node, const GraphPass<Real>& pass) const {
    return node.shape.order == MapOrder::tokens ? pass.rows.tokens : batch_;
  }
  LstmShape lstm_shape(int node, const GraphPass<Real>& pass) const;
  void join_forward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& t) const;
  void join_backward(int node, const GraphPass<Real>& pass, const NodeTensors<Real>& t) const;

  BasicDevice<Real>& device_;
  const Graph& graph_;
  std::size_t batch_;
  BasicConvolutionKernels<Real>& convolution_;
  BasicImageKernels<Real>& image_;
  BasicNormalisationKernels<Real>& normalisation_;
  std::shared_ptr<LstmMath<Real>> lstm_;
  std::unique_ptr<TokenMath<Real>> tokens_;  // null: the graph reads no tokens
  std::vector<std::size_t> parameters_, statistics_;
};

}  // namespace hetsgd
