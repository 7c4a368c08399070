// The place of linalg/cuda in a binary without it.
#include "core/error.hpp"
#include "linalg/cuda/cuda_details.hpp"
#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd {

namespace {

[[noreturn]] void refuse(int ordinal) {
  throw with_hint(device_error("cuda:{}: this binary was built without CUDA", ordinal),
                  "configure with -DHETSGD_CUDA=ON where the CUDA toolkit is, or use cpu:N");
}

}  // namespace

CudaPlatform cuda_platform() {
  CudaPlatform platform;
  platform.problem =
      "built without CUDA: configure with -DHETSGD_CUDA=ON where the CUDA toolkit is installed";
  return platform;
}

std::vector<CudaGpuDetails> cuda_gpu_details(const CudaPlatform&) { return {}; }
std::string cuda_driver_version() { return ""; }
std::vector<CudaLibrary> cuda_libraries() { return {}; }

std::string cuda_device_name(int ordinal) { refuse(ordinal); }
std::string convolution_library_version(ConvolutionLibrary) { refuse(0); }

template <class Real>
std::unique_ptr<BasicDevice<Real>> make_cuda_device(int ordinal, const CudaDeviceOptions&) {
  refuse(ordinal);
}

template std::unique_ptr<BasicDevice<float>> make_cuda_device<float>(int, const CudaDeviceOptions&);
template std::unique_ptr<BasicDevice<double>> make_cuda_device<double>(int,
                                                                       const CudaDeviceOptions&);

}  // namespace hetsgd
