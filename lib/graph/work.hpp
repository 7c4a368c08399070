// The work of a node in a training step: operations, bytes moved, launches. Layers that compute
// convolutions scale their operations by the device's efficiency and by the algorithm's speed
// (below), so operations and the rest stand apart in Work.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/units.hpp"
#include "graph/graph.hpp"

namespace hetsgd {

enum class Pass { forward, backward };

// Of one node and a batch. `input_gradient`: of a conv or fc, whether it computes dX, too.
Work node_work(const Graph& graph, int index, Pass pass, std::int64_t batch, bool input_gradient);

// Multiplications with additions of one sample's forward pass, of conv, fc and lstm: the field's
// count of a network's operations.
double multiply_adds(const Graph& graph);

// Convolution algorithms: workspace against speed, by formulas of what cuDNN's algorithms of these
// names need.

enum class ConvolutionKind { implicit, precomputed, winograd, fft };
inline constexpr int kConvolutionKinds = 4;
std::string_view to_string(ConvolutionKind kind);

struct ConvolutionAlgorithm {
  ConvolutionKind kind = ConvolutionKind::implicit;
  std::uint64_t workspace_bytes = 0;
  double speed = 1;  // relative to the fastest
};

// Those that a conv node may use, fastest first; of equal speed the one of the smaller workspace
// first. `implicit`, which needs no workspace, is always the last.
std::vector<ConvolutionAlgorithm> convolution_algorithms(const Graph& graph, int index,
                                                         std::int64_t batch);

}  // namespace hetsgd
