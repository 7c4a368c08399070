// Shapes of convolutions and pools that the tests of every device compute.
#pragma once

#include <cstddef>

#include "linalg/convolution_kernels.hpp"
#include "linalg/image_kernels.hpp"

namespace hetsgd::test {

inline ConvolutionShape convolution_of(std::size_t channels, std::size_t height, std::size_t width,
                                       std::size_t filters, std::size_t kernel_height,
                                       std::size_t kernel_width, std::size_t stride,
                                       std::size_t padding_height, std::size_t padding_width,
                                       std::size_t groups) {
  return {.in_channels = channels,
          .in_height = height,
          .in_width = width,
          .out_channels = filters,
          .out_height = (height + 2 * padding_height - kernel_height) / stride + 1,
          .out_width = (width + 2 * padding_width - kernel_width) / stride + 1,
          .kernel_height = kernel_height,
          .kernel_width = kernel_width,
          .stride = stride,
          .padding_height = padding_height,
          .padding_width = padding_width,
          .groups = groups};
}

inline PoolShape pool_of(std::size_t channels, std::size_t height, std::size_t width,
                         std::size_t kernel, std::size_t stride, std::size_t padding,
                         bool maximum) {
  return {.channels = channels,
          .in_height = height,
          .in_width = width,
          .out_height = (height + 2 * padding - kernel) / stride + 1,
          .out_width = (width + 2 * padding - kernel) / stride + 1,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride = stride,
          .padding_height = padding,
          .padding_width = padding,
          .maximum = maximum};
}

// Shapes for each kind of pooling: kernels as wide as the stride, wider, with padding, as large as
// the map; an output that is rounded up; padding that counts.
inline std::vector<PoolShape> pool_shapes() {
  std::vector<PoolShape> shapes;
  for (const bool maximum : {true, false}) {
    shapes.push_back(pool_of(3, 6, 8, 2, 2, 0, maximum));
    shapes.push_back(pool_of(2, 7, 9, 2, 2, 0, maximum));
    shapes.push_back(pool_of(2, 8, 24, 2, 2, 0, maximum));
    shapes.push_back(pool_of(1, 4, 150, 2, 2, 0, maximum));  // rows in two pieces
    shapes.push_back(pool_of(2, 7, 7, 3, 2, 1, maximum));
    shapes.push_back(pool_of(2, 5, 5, 3, 1, 1, maximum));
    shapes.push_back(pool_of(4, 6, 6, 6, 1, 0, maximum));
    PoolShape rounded_up = pool_of(2, 6, 6, 3, 2, 0, maximum);
    rounded_up.out_height = rounded_up.out_width = 3;
    shapes.push_back(rounded_up);
    PoolShape counted = pool_of(2, 5, 5, 3, 2, 1, maximum);
    counted.count_padding = true;
    shapes.push_back(counted);
  }
  return shapes;
}

}  // namespace hetsgd::test
