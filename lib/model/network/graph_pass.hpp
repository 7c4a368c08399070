// The operands of a pass over a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/graph.hpp"
#include "linalg/operands.hpp"
#include "model/network/lstm_math.hpp"

namespace hetsgd {

// The inputs of a pass over the graph, besides the maps.
template <class Real>
struct GraphPass {
  const Real* parameters = nullptr;
  // to <- beta to + alpha gradient, flat as the parameters; it may be `parameters`. beta is 0 or 1.
  Real* to = nullptr;
  Real alpha = 1, beta = 0;
  bool drops = true;                 // whether dropout drops
  const Real* statistics = nullptr;  // of all bn nodes; null: those of the batch
  std::uint64_t seed = 0;            // of dropout
  std::uint32_t draw = 0;            // of dropout: differs from one batch to the next
  RowLengths lengths = {};           // of sequences
  TokenSpans rows = {};              // of tokens; maps hold rows.tokens tokens
  // Called between nodes, and between the steps of an lstm in a forward pass; may throw.
  const std::function<void()>* check = nullptr;
};

// The tensors of one node in one pass, at their places.
template <class Real>
struct NodeTensors {
  std::vector<const Real*> inputs;  // X of each input; null where the pass does not use it
  Real* output = nullptr;           // Y
  Real* mask = nullptr;
  const Real* output_gradient = nullptr;
  // dX of each input, and the beta of its sum. Null: the gradient is not needed. One may be
  // output_gradient (in place).
  std::vector<Real*> input_gradients;
  std::vector<Real> input_betas;
};

// Returns where the parameters of each node begin in the flat vector; the last entry is its length.
std::vector<std::size_t> parameter_offsets(const Graph& graph);

}  // namespace hetsgd
