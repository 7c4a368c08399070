#include "linalg/cuda/check.hpp"

#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "core/text.hpp"
#include "linalg/device.hpp"

namespace hetsgd::cuda {

namespace {

// "cuda:1 (NVIDIA H200)" for the current device; as much of it as can be found out.
std::string current_device() {
  int ordinal = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess) return "cuda";
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) {
    return fmt::format("cuda:{}", ordinal);
  }
  return fmt::format("cuda:{} ({})", ordinal, properties.name);
}

std::string hint_for(cudaError_t status) {
  switch (status) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
      return "this binary has code for the architectures " HETSGD_CUDA_ARCHITECTURES
             "; configure with -DCMAKE_CUDA_ARCHITECTURES=... for this GPU";
    case cudaErrorInsufficientDriver:
      return fmt::format("the driver is older than CUDA {}.{}, which this binary was built with",
                         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    case cudaErrorMemoryAllocation:
      return "take a smaller batch, fewer workers on this GPU or a smaller model";
    default:
      return "";
  }
}

// What the pool of the current device keeps and nobody uses.
std::size_t idle_in_pool() {
  int ordinal = 0;
  cudaMemPool_t pool = nullptr;
  std::uint64_t reserved = 0, used = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess ||
      cudaDeviceGetDefaultMemPool(&pool, ordinal) != cudaSuccess ||
      cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved) != cudaSuccess ||
      cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) != cudaSuccess) {
    return 0;
  }
  return reserved - used;
}

}  // namespace

void fail(cudaError_t status, const char* call) {
  static_cast<void>(cudaGetLastError());  // the next call must not report this one again
  throw with_hint(device_error("{}: {}: {} ({})", current_device(), call,
                               cudaGetErrorString(status), cudaGetErrorName(status)),
                  hint_for(status));
}

void fail_memory(cudaError_t status, std::size_t bytes, const char* purpose, std::size_t held) {
  static_cast<void>(cudaGetLastError());
  std::string room;
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    free += idle_in_pool();
    room = fmt::format("; {} of {} are free", format_bytes(static_cast<double>(free)),
                       format_bytes(static_cast<double>(total)));
  }
  throw MemoryError(fmt::format("{}: out of memory: {} were needed for {}{} ({})", current_device(),
                                format_bytes(static_cast<double>(bytes)), purpose, room,
                                cudaGetErrorName(status)),
                    hint_for(cudaErrorMemoryAllocation), free + held);
}

}  // namespace hetsgd::cuda
