// Convolutions by cuDNN against their definition, and what it is asked with.
#include "linalg/convolution_cases.hpp"
#include "linalg/cuda/library.hpp"
#include "linalg/streams.hpp"
#include "support/cudnn.hpp"
#include "support/failure.hpp"

namespace hetsgd::test {
namespace {

constexpr CudaDeviceOptions kByCudnn = {.convolution_library = ConvolutionLibrary::cudnn};

template <class Real>
class CudaCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (open_cudnn() == nullptr) GTEST_SKIP() << "there is no cuDNN here";
  }
  static BasicDevice<Real>& device() {
    static const auto made = make_cuda_device<Real>(0, kByCudnn);
    return *made;
  }
};
TYPED_TEST_SUITE(CudaCudnn, RealTypes);

TYPED_TEST(CudaCudnn, IsTheDefinition) {
  for (const ConvolutionCase& each : kConvolutionCases) {
    SCOPED_TRACE(each.what);
    const RandomConvolution<TypeParam> convolution(each.shape, each.n);
    on_device(this->device(), [&](auto& side) { convolution.check(side); });
  }
}

// As in the flat vector of a network's parameters: the bits do not depend on the address.
TYPED_TEST(CudaCudnn, TakesParametersThatBeginAnywhere) {
  const ConvolutionShape s = convolution_of(4, 6, 5, 6, 3, 3, 1, 1, 1, 2);
  const RandomConvolution<TypeParam> convolution(s, 3, 1);
  on_device(this->device(), [&](auto& side) { convolution.check(side); });
}

TYPED_TEST(CudaCudnn, GivesBackAllThatItMade) {
  using Real = TypeParam;
  const int before = cudnn_alive();
  if (before < 0) GTEST_SKIP() << "a real cuDNN does not count";
  {
    const ConvolutionShape s = convolution_of(2, 5, 5, 3, 3, 3, 1, 1, 1, 1);
    const RandomConvolution<Real> two(s, 2, 1), four(s, 4, 1);
    const auto device = make_cuda_device<Real>(0, kByCudnn);
    EXPECT_EQ(cudnn_alive(), before);
    const auto streams = device->streams(2);
    for (std::size_t stream = 0; stream < 2; ++stream) {
      Side<Real> side{streams->device(stream)};
      two.check(side);
      // A handle; x, y and bias, filters, the convolution; those of another batch size.
      EXPECT_EQ(cudnn_alive(), before + static_cast<int>(stream + 1) * 11 - 5);
      four.check(side);
      two.check(side);
      EXPECT_EQ(cudnn_alive(), before + static_cast<int>(stream + 1) * 11);
    }
  }
  EXPECT_EQ(cudnn_alive(), before);
}

// fp32 is exact where TF32 drops the last bits of a factor: (1 + 2^-12) 1 of one pixel.
TEST(CudaCudnnPrecision, IsThatOfTheDevice) {
  if (open_cudnn() == nullptr) GTEST_SKIP() << "there is no cuDNN here";
  const ConvolutionShape s = convolution_of(16, 8, 8, 16, 3, 3, 1, 1, 1, 1);
  std::vector<float> x(s.inputs(), 1.0F + 0x1p-12F), ones(s.weights(), 1);
  const auto largest = [&](Precision precision) {
    const auto device = make_cuda_device<float>(
        0, {.precision = precision, .convolution_library = ConvolutionLibrary::cudnn});
    Side<float> side{*device};
    auto X = side.put(x), W = side.put(ones), Y = side.put(std::vector<float>(s.outputs()));
    kernels<ConvolutionKernels>(*device).forward(s, 1, X.data(), W.data(), nullptr, Y.data());
    side.take(Y);
    return *std::max_element(side.results[0].begin(), side.results[0].end());
  };
  EXPECT_EQ(largest(Precision::fp32), 144 * (1 + 0x1p-12));
  if (cudnn_alive() < 0) GTEST_SKIP() << "a real cuDNN may take TF32 and need not";
  EXPECT_EQ(largest(Precision::tf32), 144);
}

TEST(CudaCudnnVersion, IsToldInWords) {
  EXPECT_EQ(convolution_library_version(ConvolutionLibrary::own).rfind("own, cuBLAS 1", 0), 0U);
  if (open_cudnn() == nullptr) GTEST_SKIP() << "there is no cuDNN here";
  const std::string version = convolution_library_version(ConvolutionLibrary::cudnn);
  EXPECT_TRUE(version.rfind("cuDNN 9.", 0) == 0 || version.rfind("cuDNN 8.", 0) == 0) << version;
}

TEST(CudaLibrary, ThatIsMissingIsToldByAllItsNames) {
  const Failure failure = failure_of([] {
    const cuda::SharedLibrary library("nothing", {"libnothing.so.9", "libnothing.so.8"}, "get it");
  });
  EXPECT_EQ(failure.code, ExitCode::device);
  EXPECT_EQ(failure.hint, "get it");
  EXPECT_EQ(failure.message.rfind("nothing: libnothing.so.9: ", 0), 0U) << failure.message;
  EXPECT_NE(failure.message.find("; libnothing.so.8: "), std::string::npos) << failure.message;
}

}  // namespace
}  // namespace hetsgd::test
