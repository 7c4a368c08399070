#include "linalg/cuda/check.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "core/non_copyable.hpp"
#include "core/text.hpp"
#include "linalg/device.hpp"

namespace hetsgd::cuda {

namespace {

// The current device as "cuda:1 (NVIDIA H200)", or as much of that as can be found out.
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
      return "use a smaller batch, fewer workers on this GPU or a smaller model";
    default:
      return "";
  }
}

struct FreeMemory {
  std::size_t free = 0, total = 0;  // 0: not known
};

FreeMemory free_memory() {
  FreeMemory found;
  if (cudaMemGetInfo(&found.free, &found.total) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  return found;
}

// The pool of the current device during a search for its largest piece. Afterwards the pool keeps
// no more of the GPU than before.
class PoolUnderTrial : NonCopyable {
 public:
  PoolUnderTrial() {
    int ordinal = 0;
    if (cudaGetDevice(&ordinal) != cudaSuccess ||
        cudaDeviceGetDefaultMemPool(&pool_, ordinal) != cudaSuccess ||
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved_) !=
            cudaSuccess ||
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used_) != cudaSuccess) {
      pool_ = nullptr;
      reserved_ = used_ = 0;
    }
  }
  ~PoolUnderTrial() {
    if (pool_ != nullptr) cudaMemPoolTrimTo(pool_, reserved_);
  }

  std::size_t idle() const { return reserved_ - used_; }

 private:
  cudaMemPool_t pool_ = nullptr;
  std::uint64_t reserved_ = 0, used_ = 0;
};

bool gives(std::size_t bytes, cudaStream_t stream) {
  void* memory = nullptr;
  if (cudaMallocAsync(&memory, bytes, stream) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  cudaFreeAsync(memory, stream);
  cudaStreamSynchronize(stream);
  return true;
}

// The largest piece that the pool gives after it refused `refused` bytes, up to a sixty-fourth
// less.
std::size_t largest_piece(std::size_t refused, const FreeMemory& of_gpu, cudaStream_t stream) {
  const PoolUnderTrial pool;
  std::size_t most = std::min(refused, of_gpu.free + pool.idle()), least = 0;
  if (most > 0 && most < refused && gives(most, stream)) return most;
  for (const std::size_t close = most / 64 + 1; most - least > close;) {
    const std::size_t size = least + (most - least) / 2;
    (gives(size, stream) ? least : most) = size;
  }
  return least;
}

[[noreturn]] void fail_memory(cudaError_t status, std::size_t bytes, const char* purpose,
                              const std::string& room, std::size_t available) {
  throw MemoryError(fmt::format("{}: out of memory: {} were needed for {}{} ({})", current_device(),
                                format_bytes(static_cast<double>(bytes)), purpose, room,
                                cudaGetErrorName(status)),
                    hint_for(cudaErrorMemoryAllocation), available);
}

}  // namespace

void fail(cudaError_t status, const char* call) {
  static_cast<void>(cudaGetLastError());  // the next call must not report this error again
  throw with_hint(device_error("{}: {}: {} ({})", current_device(), call,
                               cudaGetErrorString(status), cudaGetErrorName(status)),
                  hint_for(status));
}

void fail_size(const char* what, std::size_t found, std::size_t most, const char* hint) {
  throw with_hint(
      device_error("{}: found {} {}, expected at most {}", current_device(), found, what, most),
      hint);
}

void fail_memory(cudaError_t status, std::size_t bytes, const char* purpose, std::size_t held) {
  static_cast<void>(cudaGetLastError());
  const FreeMemory of_gpu = free_memory();
  fail_memory(status, bytes, purpose,
              fmt::format("; {} of {} are free", format_bytes(static_cast<double>(of_gpu.free)),
                          format_bytes(static_cast<double>(of_gpu.total))),
              of_gpu.free + held);
}

void fail_pool(cudaError_t status, std::size_t bytes, const char* purpose, std::size_t held,
               cudaStream_t stream) {
  static_cast<void>(cudaGetLastError());
  const FreeMemory of_gpu = free_memory();
  const std::size_t largest = largest_piece(bytes, of_gpu, stream);
  fail_memory(status, bytes, purpose,
              fmt::format("; of {}, {} are left in one piece",
                          format_bytes(static_cast<double>(of_gpu.total)),
                          format_bytes(static_cast<double>(largest))),
              largest + held);
}

}  // namespace hetsgd::cuda
