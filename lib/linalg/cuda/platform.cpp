// The list of available GPUs.
#include <cuda_runtime_api.h>

#include "core/error.hpp"
#include "core/text.hpp"
#include "linalg/cuda/check.hpp"
#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd {

namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// The reason why there are no GPUs, as a message for the user.
std::string problem_of(cudaError_t status, int driver) {
  if (status == cudaSuccess || status == cudaErrorNoDevice) {
    return driver == 0 ? "there is no NVIDIA driver on this machine" : "the driver shows no GPU";
  }
  if (status == cudaErrorInsufficientDriver) {
    if (driver == 0) return "there is no NVIDIA driver on this machine";
    return fmt::format("the driver knows CUDA {} at most, this binary needs {}",
                       version_text(driver), version_text(CUDART_VERSION));
  }
  return fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

std::string names_of(const std::vector<CudaGpu>& gpus) {
  std::string text;
  for (const CudaGpu& gpu : gpus) {
    text += fmt::format("{}cuda:{} ({}, {})", text.empty() ? "" : ", ", gpu.ordinal, gpu.name,
                        format_bytes(static_cast<double>(gpu.memory_bytes)));
  }
  return text;
}

}  // namespace

CudaPlatform cuda_platform() {
  CudaPlatform platform;
  platform.built_in = true;
  platform.runtime = version_text(CUDART_VERSION);
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) {
    platform.driver = version_text(driver);
  }
  const cudaError_t status = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (status != cudaSuccess || count == 0) {
    platform.problem = problem_of(status, driver);
    return platform;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties;
    HETSGD_CUDA(cudaGetDeviceProperties(&properties, ordinal));
    platform.gpus.push_back({.ordinal = ordinal,
                             .name = properties.name,
                             .memory_bytes = properties.totalGlobalMem,
                             .major = properties.major,
                             .minor = properties.minor,
                             .multiprocessors = properties.multiProcessorCount});
  }
  return platform;
}

std::string cuda_device_name(int ordinal) {
  const CudaPlatform platform = cuda_platform();
  if (platform.gpus.empty()) {
    throw with_hint(device_error("cuda:{}: {}", ordinal, platform.problem),
                    "use cpu:N here; `hetsgd devices` lists what there is");
  }
  for (const CudaGpu& gpu : platform.gpus) {
    if (gpu.ordinal == ordinal) return fmt::format("cuda:{} ({})", ordinal, gpu.name);
  }
  throw with_hint(device_error("cuda:{}: this machine has {} GPU{}", ordinal, platform.gpus.size(),
                               platform.gpus.size() == 1 ? "" : "s"),
                  fmt::format("use one of {}", names_of(platform.gpus)));
}

}  // namespace hetsgd
