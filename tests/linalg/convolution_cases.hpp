// Shapes of convolutions, and every call of their kernels, for the tests of all backends.
#pragma once

#include <algorithm>
#include <concepts>
#include <vector>

#include "linalg/convolution_kernels.hpp"
#include "linalg/devices.hpp"
#include "support/image_shapes.hpp"

namespace hetsgd::test {

struct ConvolutionCase {
  const char* what;
  ConvolutionShape shape;
  std::size_t n;
};

// Shapes that the networks have, at small sizes, and what is at the edge of each rule.
inline const std::vector<ConvolutionCase> kConvolutionCases = {
    {"one number", convolution_of(1, 1, 1, 1, 1, 1, 1, 0, 0, 1), 1},
    {"lenet, first", convolution_of(1, 28, 28, 6, 5, 5, 1, 2, 2, 1), 3},
    {"lenet, second", convolution_of(6, 14, 14, 16, 5, 5, 1, 0, 0, 1), 9},
    {"3x3", convolution_of(16, 8, 8, 16, 3, 3, 1, 1, 1, 1), 20},
    {"pointwise", convolution_of(9, 7, 5, 11, 1, 1, 1, 0, 0, 1), 2},
    {"pointwise with stride", convolution_of(5, 9, 8, 7, 1, 1, 2, 0, 0, 1), 2},
    {"stride 2, rows left over", convolution_of(3, 12, 11, 5, 3, 3, 2, 1, 1, 1), 3},
    {"stride 4, kernel 11", convolution_of(3, 35, 35, 8, 11, 11, 4, 0, 0, 1), 2},
    {"stride 3 beyond the kernel", convolution_of(2, 10, 11, 3, 2, 2, 3, 0, 1, 1), 2},
    {"groups", convolution_of(8, 6, 6, 12, 3, 3, 1, 1, 1, 4), 3},
    {"1x7", convolution_of(4, 9, 9, 6, 1, 7, 1, 0, 3, 1), 2},
    {"7x1", convolution_of(4, 9, 9, 6, 7, 1, 1, 3, 0, 1), 2},
    {"several blocks of rows", convolution_of(2, 40, 60, 3, 3, 3, 1, 1, 1, 1), 2},
    {"lenet-002, second", convolution_of(32, 12, 12, 64, 5, 5, 1, 0, 0, 1), 3},
    {"channels in part of a register", convolution_of(20, 7, 6, 23, 3, 3, 1, 1, 0, 1), 3},
    {"three registers, groups, stride 2", convolution_of(34, 9, 9, 68, 3, 3, 2, 1, 1, 2), 3},
    {"many samples in parts", convolution_of(16, 4, 5, 33, 2, 3, 1, 0, 0, 1), 37},
    {"kernel as large as the padded map", convolution_of(3, 4, 4, 5, 6, 6, 1, 1, 1, 1), 4},
};

struct ConvolutionReference {
  std::vector<double> Y, dX, G, g;
};

// The definition, in double; the gradient by the same sum.
template <class Real>
ConvolutionReference convolution_by_definition(const ConvolutionShape& s, std::size_t n,
                                               const std::vector<Real>& X,
                                               const std::vector<Real>& W,
                                               const std::vector<Real>& b,
                                               const std::vector<Real>& dY) {
  ConvolutionReference r;
  r.Y.assign(n * s.outputs(), 0);
  r.dX.assign(n * s.inputs(), 0);
  r.G.assign(s.weights(), 0);
  r.g.assign(s.out_channels, 0);
  const std::size_t filters = s.out_channels / s.groups, channels = s.in_channels / s.groups;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t o = 0; o < s.out_channels; ++o) {
      for (std::size_t h = 0; h < s.out_height; ++h) {
        for (std::size_t w = 0; w < s.out_width; ++w) {
          const std::size_t y = ((i * s.out_channels + o) * s.out_height + h) * s.out_width + w;
          const auto d = static_cast<double>(dY[y]);
          r.Y[y] = static_cast<double>(b[o]);
          r.g[o] += d;
          for (std::size_t c = 0; c < channels; ++c) {
            for (std::size_t kh = 0; kh < s.kernel_height; ++kh) {
              for (std::size_t kw = 0; kw < s.kernel_width; ++kw) {
                const std::size_t row = h * s.stride + kh, column = w * s.stride + kw;
                if (row < s.padding_height || row >= s.in_height + s.padding_height ||
                    column < s.padding_width || column >= s.in_width + s.padding_width) {
                  continue;
                }
                const std::size_t x =
                    ((i * s.in_channels + o / filters * channels + c) * s.in_height + row -
                     s.padding_height) *
                        s.in_width +
                    column - s.padding_width;
                const std::size_t weight =
                    ((o * channels + c) * s.kernel_height + kh) * s.kernel_width + kw;
                r.Y[y] += static_cast<double>(W[weight]) * static_cast<double>(X[x]);
                r.dX[x] += static_cast<double>(W[weight]) * d;
                r.G[weight] += static_cast<double>(X[x]) * d;
              }
            }
          }
        }
      }
    }
  }
  return r;
}

// A convolution with random operands. Parameters and their gradients begin `offset` elements behind
// the start of an allocation.
template <class Real>
struct RandomConvolution {
  RandomConvolution(const ConvolutionShape& shape, std::size_t samples, std::size_t offset_of = 0)
      : s(shape),
        n(samples),
        offset(offset_of),
        x(random_vector<Real>(n * s.inputs(), 1)),
        w(random_vector<Real>(s.weights(), 2)),
        b(random_vector<Real>(s.out_channels, 3)),
        dy(random_vector<Real>(n * s.outputs(), 4)),
        exact(convolution_by_definition(s, n, x, w, b, dy)) {}
  // With changed operands.
  template <std::invocable<Real> Change>
  RandomConvolution(const ConvolutionShape& shape, std::size_t samples, const Change& change)
      : RandomConvolution(shape, samples) {
    for (auto* values : {&x, &w, &dy}) std::ranges::transform(*values, values->begin(), change);
    exact = convolution_by_definition(s, n, x, w, b, dy);
  }

  // Every call of the kernels: the way there with and without a bias, and the way back over numbers
  // that are none and added to others.
  void check(Side<Real>& side) const {
    auto& convolution = kernels<BasicConvolutionKernels<Real>>(side.device);
    const auto X = side.put(x), W = put(side, w), B = put(side, b), dY = side.put(dy);
    auto Y = side.room(n * s.outputs()), dX = side.room(n * s.inputs()),
         G = side.room(offset + s.weights()), g = side.room(offset + s.out_channels);
    const auto without_bias = numbers(exact.Y.size(), [&](auto i) {
      return exact.Y[i] - double(b[i / (s.out_height * s.out_width) % s.out_channels]);
    });
    convolution.forward(s, n, X.data(), W.data() + offset, B.data() + offset, Y.data());
    side.expect(Y, exact.Y, "Y", 10);
    convolution.forward(s, n, X.data(), W.data() + offset, nullptr, Y.data());
    side.expect(Y, without_bias, "Y without a bias", 10);
    for (const double times : {1.0, 2.0}) {  // the second time added to the first
      convolution.input_gradient(s, n, dY.data(), W.data() + offset, Real(times - 1), dX.data());
      side.expect(dX, scaled(times, exact.dX, 0), "dX", 10);
      convolution.parameter_gradient(s, n, X.data(), dY.data(), Real(-0.3), Real(times - 1),
                                     G.data() + offset, g.data() + offset);
      side.expect(G, scaled(-0.3 * times, exact.G, offset), "G", 10);
      side.expect(g, scaled(-0.3 * times, exact.g, offset), "g", 10);
    }
    convolution.parameter_gradient(s, n, X.data(), dY.data(), Real(1), Real(0), G.data() + offset,
                                   nullptr);
    side.expect(G, scaled(1, exact.G, offset), "G alone", 10);
  }

  ConvolutionShape s;
  std::size_t n, offset;
  std::vector<Real> x, w, b, dy;
  ConvolutionReference exact;

 private:
  BasicBuffer<Real> put(Side<Real>& side, std::vector<Real> values) const {
    values.insert(values.begin(), offset, Real(0));
    return side.put(values);
  }
  static std::vector<double> scaled(double times, std::vector<double> values, std::size_t behind) {
    for (double& each : values) each *= times;
    values.insert(values.begin(), behind, NAN);
    return values;
  }
};

}  // namespace hetsgd::test
