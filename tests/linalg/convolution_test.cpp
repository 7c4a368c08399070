#include "linalg/convolution_cases.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class Convolution : public ::testing::Test {};
TYPED_TEST_SUITE(Convolution, RealTypes);

TYPED_TEST(Convolution, IsItsDefinition) {
  for (const auto& [what, shape, n] : kConvolutionCases) {
    SCOPED_TRACE(what);
    const RandomConvolution<TypeParam> convolution(shape, n);
    on_devices<TypeParam>([&](auto& side) { convolution.check(side); });
  }
}

// Each sample has the bits that it has alone.
TYPED_TEST(Convolution, TreatsEachSampleAlone) {
  using Real = TypeParam;
  if (kOnGpu) GTEST_SKIP() << "cuBLAS does not promise this";
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
  RandomConvolution<Real> convolution(s, 1);
  convolution.x[7] = std::numeric_limits<Real>::quiet_NaN();
  on_devices<Real>([&](auto& side) {
    auto& kernels_of = kernels<BasicConvolutionKernels<Real>>(side.device);
    const auto X = side.put(convolution.x), W = side.put(convolution.w),
               dY = side.put(convolution.dy);
    auto Y = side.room(s.outputs()), G = side.room(s.weights());
    kernels_of.forward(s, 1, X.data(), W.data(), nullptr, Y.data());
    kernels_of.parameter_gradient(s, 1, X.data(), dY.data(), Real(1), Real(0), G.data(), nullptr);
    const auto y = side.get(Y);
    EXPECT_TRUE(std::isnan(y[7]));
    EXPECT_FALSE(std::isnan(y[35]));
    EXPECT_TRUE(std::isnan(side.get(G)[4]));
  });
}

}  // namespace
}  // namespace hetsgd::test
