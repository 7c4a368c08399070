// Devices and errors of the emulated runtime.
#include <unistd.h>

#include <cstring>
#include <utility>

#include "emulation.hpp"

namespace hetsgd_emulation {

namespace {

constexpr int kMajor = 9, kMinor = 0, kMultiprocessors = 4;

thread_local int gpu_of_thread = 0;
thread_local bool gpu_was_chosen = false;
thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define HETSGD_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    HETSGD_ERROR(cudaSuccess, "no error"),
    HETSGD_ERROR(cudaErrorInvalidValue, "invalid argument"),
    HETSGD_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    HETSGD_ERROR(cudaErrorInsufficientDriver, "driver version is insufficient"),
    HETSGD_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    HETSGD_ERROR(cudaErrorNoDevice, "no CUDA-capable device"),
    HETSGD_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    HETSGD_ERROR(cudaErrorNoKernelImageForDevice, "no kernel image for the device"),
    HETSGD_ERROR(cudaErrorUnsupportedPtxVersion, "unsupported PTX version"),
    HETSGD_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    HETSGD_ERROR(cudaErrorNotReady, "device not ready"),
};
#undef HETSGD_ERROR

const ErrorText& text_of(cudaError_t error) {
  for (const ErrorText& entry : kErrors) {
    if (entry.error == error) return entry;
  }
  misuse(fmt::format("an error code that there is not: {}", static_cast<int>(error)));
}

cudaError_t platform_status() {
  if (settings().driver < CUDART_VERSION) return cudaErrorInsufficientDriver;
  return settings().gpus == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t check_gpu(int gpu) {
  if (const cudaError_t status = platform_status(); status != cudaSuccess) return status;
  return gpu >= 0 && gpu < settings().gpus ? cudaSuccess : cudaErrorInvalidDevice;
}

// The same in all processes of a host.
cudaUUID_t uuid_of(int gpu) {
  cudaUUID_t uuid = {};
  gethostname(uuid.bytes, sizeof uuid.bytes - 1);
  uuid.bytes[sizeof uuid.bytes - 1] = static_cast<char>(gpu + 1);
  return uuid;
}

}  // namespace

int current_gpu() { return gpu_of_thread; }
bool chose_gpu() { return gpu_was_chosen; }

cudaError_t report(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }
const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }

cudaError_t cudaGetDevice(int* device) {
  *device = gpu_of_thread;
  return report(platform_status());
}
cudaError_t cudaSetDevice(int device) {
  const cudaError_t status = check_gpu(device);
  if (status == cudaSuccess) {
    gpu_of_thread = device;
    gpu_was_chosen = true;
  }
  return report(status);
}
cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t status = platform_status();
  *count = status == cudaSuccess ? settings().gpus : 0;
  return report(status);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().driver;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t status = check_gpu(device); status != cudaSuccess) return report(status);
  *properties = {};
  std::strcpy(properties->name, "Emulated GPU");
  properties->uuid = uuid_of(device);
  properties->totalGlobalMem = settings().memory_bytes;
  properties->major = kMajor;
  properties->minor = kMinor;
  properties->multiProcessorCount = kMultiprocessors;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t status = check_gpu(device); status != cudaSuccess) return report(status);
  switch (attribute) {
    case cudaDevAttrClockRate:
      *value = 1'000'000;
      break;  // kHz
    case cudaDevAttrMemoryClockRate:
      *value = 1'500'000;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = kMajor;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = kMinor;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      break;
    default:
      return report(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (const cudaError_t status = check_gpu(device); status != cudaSuccess) return report(status);
  if (length < 13) return report(cudaErrorInvalidValue);
  const std::string id = fmt::format("0000:{:02X}:00.0", device + 1);
  std::memcpy(text, id.c_str(), id.size() + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t status = platform_status(); status != cudaSuccess) return report(status);
  Lock lock(mutex);
  wait_for_gpu(lock, gpu_of_thread);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  for (const int gpu : {device, peer}) {
    if (const cudaError_t status = check_gpu(gpu); status != cudaSuccess) return report(status);
  }
  *can = settings().peers && device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t hetsgdEmulatedFunction(cudaFuncAttributes* attributes) {
  if (!settings().code) return report(cudaErrorNoKernelImageForDevice);
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t hetsgdAllowFunction(cudaFuncAttribute attribute, int value) {
  if (!settings().code) return report(cudaErrorNoKernelImageForDevice);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0) {
    return report(cudaErrorInvalidValue);
  }
  return allow_shared_memory(static_cast<std::size_t>(value));
}

}  // extern "C"
