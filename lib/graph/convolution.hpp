// Convolution algorithms: workspace against speed, by formulas of what cuDNN's algorithms of these
// names need.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace hetsgd {

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
