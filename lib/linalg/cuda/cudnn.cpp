#include "linalg/cuda/cudnn.hpp"

#include "core/error.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "linalg/cuda/library.hpp"

namespace hetsgd::cuda {

namespace {

constexpr const char* kHint =
    "install cuDNN (NVIDIA's package libcudnn9-cuda-" HETSGD_CUBLAS_MAJOR
    ", or pip install nvidia-cudnn-cu" HETSGD_CUBLAS_MAJOR
    "), name its folder in LD_LIBRARY_PATH, or use --convolution-library own";

// kNine: the first version whose number has five digits. kEight: the first one with
// cudnn::Math::fma.
constexpr std::size_t kNine = 90000, kEight = 8000;

}  // namespace

Cudnn::Cudnn()
    : Functions(
          SharedLibrary("--convolution-library cudnn", {"libcudnn.so.9", "libcudnn.so.8"}, kHint)) {
  const std::size_t found = get_version();
  if (found < kEight || (found >= kEight + 1000 && found < kNine) || found >= kNine + 10000) {
    throw with_hint(device_error("--convolution-library cudnn: found cuDNN of version {} "
                                 "(cudnnGetVersion), expected 8 or 9",
                                 found),
                    kHint);
  }
}

const Cudnn& Cudnn::get() {
  static const Cudnn library;
  return library;
}

std::string Cudnn::version() const {
  const std::size_t number = get_version(), major = number >= kNine ? 10000 : 1000;
  return fmt::format("{}.{}.{}", number / major, number % major / 100, number % 100);
}

void Cudnn::check(cudnn::Status status, const char* call) const {
  if (status == cudnn::Status::success) return;
  throw with_hint(device_error("{}: {} (cuDNN {})", call, get_error_string(status), version()),
                  "--convolution-library own does without cuDNN");
}

}  // namespace hetsgd::cuda

std::string hetsgd::convolution_library_version(ConvolutionLibrary library) {
  if (library == ConvolutionLibrary::own) return "own, cuBLAS " + cuda::Blas::version();
  return "cuDNN " + cuda::Cudnn::get().version();
}
