// The inputs of a node's backward pass besides the gradient of its output, and which gradients are
// written in place.
#pragma once

#include <cstdint>

#include "graph/graph.hpp"

namespace hetsgd {

// `cudnn`: the arguments of cuDNN's calls, as the papers' systems keep them. `minimal`: only what
// the mathematics needs (relu: its output; max pooling: an index byte per output; average:
// nothing).
enum class BackwardNeeds { cudnn, minimal };

struct NodeNeeds {
  bool input = false;       // X
  bool output = false;      // Y
  std::int64_t mask = 0;    // bytes for a batch, written by the forward pass: masks, indices,
                            // statistics of norm, logarithms of sums of attention
  bool statistics = false;  // the mask holds mean and deviation of a bn
};

NodeNeeds backward_needs(const Graph& graph, int index, std::int64_t batch, BackwardNeeds needs);

// Whether the node's backward pass writes the gradient of its first input over that of its output
// (relu, lrn, norm, gelu, add) or over its output (softmax). This is only possible if the node is
// the input's only consumer.
bool gradient_in_place(const Graph& graph, int index);

}  // namespace hetsgd
