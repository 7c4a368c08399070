// The work of a node in a training step: operations, bytes moved, launches. The operations of
// convolutions are later scaled by the device's efficiency and the algorithm's speed (below), so
// Work keeps them apart.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/units.hpp"
#include "graph/graph.hpp"

namespace hetsgd {

enum class Pass { forward, backward };

// The work of one node for a batch. `input_gradient` says whether the backward pass of a conv, fc
// or linear computes dX, too.
Work node_work(const Graph& graph, int index, Pass pass, std::int64_t batch, bool input_gradient);

// Multiply-adds of one sample's forward pass through conv, fc, lstm, linear, attention and the
// softmax of tokens, the usual count of a network's operations.
double multiply_adds(const Graph& graph);

// Convolution algorithms trade workspace for speed. The formulas give what cuDNN's algorithms of
// these names need.

enum class ConvolutionKind { implicit, precomputed, winograd, fft };
inline constexpr int kConvolutionKinds = 4;
std::string_view to_string(ConvolutionKind kind);

struct ConvolutionAlgorithm {
  ConvolutionKind kind = ConvolutionKind::implicit;
  std::uint64_t workspace_bytes = 0;
  double speed = 1;  // relative to the fastest
};

// The algorithms that a conv node may use, fastest first; of equally fast ones the one with the
// smaller workspace comes first. `implicit`, which needs no workspace, is always the last.
std::vector<ConvolutionAlgorithm> convolution_algorithms(const Graph& graph, int index,
                                                         std::int64_t batch);

}  // namespace hetsgd
