#include "graph/convolution.hpp"

#include <algorithm>
#include <array>

namespace hetsgd {
namespace {

std::int64_t even_from(std::int64_t size) { return size + size % 2; }

// F(4x4, 3x3): tiles of 6x6 = 36 numbers of input, output and filters.
std::uint64_t winograd_bytes(const Shape& x, const Shape& y, std::int64_t batch) {
  const std::int64_t tiles = (y.height + 3) / 4 * ((y.width + 3) / 4);
  return static_cast<std::uint64_t>(
      144 * (batch * tiles * (x.channels + y.channels) + x.channels * y.channels));
}

// Half of a complex spectrum of every map and filter.
std::uint64_t fft_bytes(const Node& node, const Shape& x, const Shape& y, std::int64_t batch) {
  const std::int64_t u = even_from(x.height + node.kernel[0] - 1);
  const std::int64_t v = even_from(x.width + node.kernel[1] - 1);
  return static_cast<std::uint64_t>(8 * u * (v / 2 + 1) *
                                    (batch * (x.channels + y.channels) + x.channels * y.channels));
}

}  // namespace

std::string_view to_string(ConvolutionKind kind) {
  static constexpr std::array<std::string_view, kConvolutionKinds> kNames{"implicit", "precomputed",
                                                                          "winograd", "fft"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<ConvolutionAlgorithm> convolution_algorithms(const Graph& graph, int index,
                                                         std::int64_t batch) {
  constexpr double kPrecomputedSpeed = 0.7;
  constexpr double kImplicitSpeed = 0.4;  // paper 004: memory-optimal loses 60 %
  const Node& node = graph.node(index);
  const Shape& x = graph.input_shape(index);
  const Shape& y = node.shape;
  std::vector<ConvolutionAlgorithm> list;
  if (node.kernel[0] == 3 && node.kernel[1] == 3 && node.stride == 1) {
    list.push_back({ConvolutionKind::winograd, winograd_bytes(x, y, batch), 1});
  }
  if (node.stride == 1 && std::max(node.kernel[0], node.kernel[1]) >= 5) {
    list.push_back({ConvolutionKind::fft, fft_bytes(node, x, y, batch), 1});
  }
  list.push_back(
      {ConvolutionKind::precomputed,
       static_cast<std::uint64_t>(kNumberBytes * (filter_size(graph, index) + y.height * y.width)),
       kPrecomputedSpeed});
  list.push_back({ConvolutionKind::implicit, 0, kImplicitSpeed});
  return list;
}

}  // namespace hetsgd
