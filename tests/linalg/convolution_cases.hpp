// Shapes of convolutions, and every call of their kernels, for the tests of all backends.
#pragma once

#include <limits>
#include <vector>

#include "linalg/convolution_kernels.hpp"
#include "linalg/reference.hpp"
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

// Every call of the kernels with a side of cuda_compare.hpp, which takes the results. Parameters and
// their gradients begin `offset` numbers behind the begin of an allocation.
template <class Side>
void every_convolution(Side& side, const ConvolutionShape& s, std::size_t n, std::size_t offset) {
  using Real = typename Side::Real;
  constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
  auto& convolution = kernels<BasicConvolutionKernels<Real>>(side.device);
  auto X = side.put(random_vector<float>(n * s.inputs(), 1)),
       W = side.put(random_vector<float>(offset + s.weights(), 2)),
       b = side.put(random_vector<float>(offset + s.out_channels, 3)),
       dY = side.put(random_vector<float>(n * s.outputs(), 4));
  auto Y = side.put(std::vector<float>(n * s.outputs(), kNothing)),
       dX = side.put(std::vector<float>(n * s.inputs(), kNothing)),
       G = side.put(std::vector<float>(offset + s.weights(), kNothing)),
       g = side.put(std::vector<float>(offset + s.out_channels, kNothing));
  for (const Real* bias : {static_cast<const Real*>(nullptr), std::as_const(b).data() + offset}) {
    convolution.forward(s, n, X.data(), W.data() + offset, bias, Y.data());
    side.take(Y);
  }
  for (const Real beta : {Real(0), Real(1)}) {
    convolution.input_gradient(s, n, dY.data(), W.data() + offset, beta, dX.data());
    side.take(dX);
    convolution.parameter_gradient(s, n, X.data(), dY.data(), Real(-0.3), beta, G.data() + offset,
                                   g.data() + offset);
    side.take(G);
    side.take(g);
  }
  convolution.parameter_gradient(s, n, X.data(), dY.data(), Real(1), Real(0), G.data() + offset,
                                 nullptr);
  side.take(G);
}

}  // namespace hetsgd::test
