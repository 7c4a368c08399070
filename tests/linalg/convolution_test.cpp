#include <gtest/gtest.h>

#include "linalg/convolution_cases.hpp"
#include "linalg/reference.hpp"

namespace hetsgd::test {
namespace {

struct ConvolutionReference {
  std::vector<double> Y, dX, G, g;
};

// The definition, in double; the gradient by the same sum.
template <class Real>
ConvolutionReference by_definition(const ConvolutionShape& s, std::size_t n,
                                   const std::vector<Real>& X, const std::vector<Real>& W,
                                   const std::vector<Real>& b, const std::vector<Real>& dY) {
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

template <class Real>
class Convolution : public ::testing::Test {};
TYPED_TEST_SUITE(Convolution, RealTypes);

TYPED_TEST(Convolution, IsItsDefinition) {
  using Real = TypeParam;
  for (const auto& [what, s, n] : kConvolutionCases) {
    SCOPED_TRACE(what);
    const auto X = random_vector<Real>(n * s.inputs(), 1), W = random_vector<Real>(s.weights(), 2),
               b = random_vector<Real>(s.out_channels, 3),
               dY = random_vector<Real>(n * s.outputs(), 4),
               before = random_vector<Real>(n * s.inputs(), 5),
               G0 = random_vector<Real>(s.weights(), 6);
    const ConvolutionReference exact = by_definition(s, n, X, W, b, dY);
    std::vector<double> sum = exact.dX, moved = widen(G0), step = exact.g;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(before[i]);
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] -= 0.3 * exact.G[i];
    for (double& each : step) each *= 2;
    std::vector<std::vector<Real>> bits;
    for (const int cores : kCoreCounts) {
      const auto device = make_cpu_device<Real>(cores);
      auto& kernels_of = kernels<BasicConvolutionKernels<Real>>(*device);
      const Real nan = std::numeric_limits<Real>::quiet_NaN();
      std::vector<Real> Y(n * s.outputs(), nan), dX(n * s.inputs(), nan), G(s.weights(), nan),
          g(s.out_channels, nan), added = before, W2 = G0;
      kernels_of.forward(s, n, X.data(), W.data(), b.data(), Y.data());
      expect_close(Y, exact.Y, 10 * kTolerance<Real>, "Y");
      kernels_of.input_gradient(s, n, dY.data(), W.data(), Real(0), dX.data());
      expect_close(dX, exact.dX, 10 * kTolerance<Real>, "dX");
      kernels_of.input_gradient(s, n, dY.data(), W.data(), Real(1), added.data());
      expect_close(added, sum, 10 * kTolerance<Real>, "dX added");
      kernels_of.parameter_gradient(s, n, X.data(), dY.data(), Real(1), Real(0), G.data(), nullptr);
      expect_close(G, exact.G, 10 * kTolerance<Real>, "G");
      kernels_of.parameter_gradient(s, n, X.data(), dY.data(), Real(-0.3), Real(1), W2.data(),
                                    nullptr);
      expect_close(W2, moved, 10 * kTolerance<Real>, "G added");
      kernels_of.parameter_gradient(s, n, X.data(), dY.data(), Real(2), Real(0), G.data(),
                                    g.data());
      expect_close(g, step, 10 * kTolerance<Real>, "g");
      kernels_of.forward(s, n, X.data(), W.data(), nullptr, Y.data());
      for (const auto* each : {&Y, &dX, &added, &G, &g}) bits.push_back(*each);
    }
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(bits[i], bits[i + 5]) << "on three cores";
  }
}

// Each sample has the bits that it has alone.
TYPED_TEST(Convolution, TreatsEachSampleAlone) {
  using Real = TypeParam;
  const ConvolutionShape s = convolution_of(6, 14, 14, 16, 5, 5, 1, 0, 0, 1);
  const std::size_t n = 5;
  const auto X = random_vector<Real>(n * s.inputs(), 1), W = random_vector<Real>(s.weights(), 2);
  const auto device = make_cpu_device<Real>(1);
  auto& kernels_of = kernels<BasicConvolutionKernels<Real>>(*device);
  std::vector<Real> all(n * s.outputs()), one(s.outputs());
  kernels_of.forward(s, n, X.data(), W.data(), nullptr, all.data());
  for (std::size_t i = 0; i < n; ++i) {
    kernels_of.forward(s, 1, X.data() + i * s.inputs(), W.data(), nullptr, one.data());
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.data() + i * s.outputs()));
  }
}

TYPED_TEST(Convolution, LetsNaNThrough) {
  using Real = TypeParam;
  const ConvolutionShape s = convolution_of(2, 6, 6, 3, 3, 3, 1, 1, 1, 1);
  auto X = random_vector<Real>(s.inputs(), 1);
  X[7] = std::numeric_limits<Real>::quiet_NaN();
  const auto W = random_vector<Real>(s.weights(), 2), dY = random_vector<Real>(s.outputs(), 3);
  const auto device = make_cpu_device<Real>(1);
  auto& kernels_of = kernels<BasicConvolutionKernels<Real>>(*device);
  std::vector<Real> Y(s.outputs()), G(s.weights());
  kernels_of.forward(s, 1, X.data(), W.data(), nullptr, Y.data());
  kernels_of.parameter_gradient(s, 1, X.data(), dY.data(), Real(1), Real(0), G.data(), nullptr);
  EXPECT_TRUE(std::isnan(Y[7]));
  EXPECT_FALSE(std::isnan(Y[35]));
  EXPECT_TRUE(std::isnan(G[4]));
}

}  // namespace
}  // namespace hetsgd::test
