#include "graph/convolution.hpp"

#include <algorithm>
#include <array>

namespace hetsgd {
namespace {

std::int64_t even_from(std::int64_t size) { return size + size % 2; }

// More than any device has, where a workspace would be beyond 64 bits.
std::uint64_t workspace_bytes(double bytes) {
  constexpr auto kMost = static_cast<double>(std::uint64_t{1} << 60);
  return static_cast<std::uint64_t>(std::min(bytes, kMost));
}

double channel_products(const Shape& x, const Shape& y, double per_sample, std::int64_t batch) {
  const auto in = static_cast<double>(x.channels), out = static_cast<double>(y.channels);
  return static_cast<double>(batch) * per_sample * (in + out) + in * out;
}

// F(4x4, 3x3): tiles of 6x6 = 36 numbers of input, output and filters.
std::uint64_t winograd_bytes(const Shape& x, const Shape& y, std::int64_t batch) {
  const std::int64_t tiles = (y.height + 3) / 4 * ((y.width + 3) / 4);
  return workspace_bytes(144 * channel_products(x, y, static_cast<double>(tiles), batch));
}

// Half of a complex spectrum of every map and filter.
std::uint64_t fft_bytes(const Node& node, const Shape& x, const Shape& y, std::int64_t batch) {
  const std::int64_t u = even_from(x.height + node.kernel[0] - 1);
  const std::int64_t v = even_from(x.width + node.kernel[1] - 1);
  const auto spectrum = static_cast<double>(u) * static_cast<double>(v / 2 + 1);
  return workspace_bytes(8 * spectrum * channel_products(x, y, 1, batch));
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
