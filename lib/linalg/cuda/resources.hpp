// Owners of streams, events, pinned host memory and device memory. Each belongs to the device that
// was current when it was made, and can be destroyed from any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/non_copyable.hpp"
#include "linalg/cuda/check.hpp"

namespace hetsgd::cuda {

// A CUDA stream that does not wait for the default stream.
class Stream : NonCopyable {
 public:
  Stream() { HETSGD_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }

  cudaStream_t get() const { return stream_; }
  void synchronize() const { HETSGD_CUDA(cudaStreamSynchronize(stream_)); }

  // Bytes of device memory taken in this stream that depend on the size of the batches.
  std::size_t batch_bytes() const { return held_ - fixed_; }
  void count(std::size_t taken, std::size_t given_back) const { held_ += taken - given_back; }
  void keep_what_is_held() { fixed_ = held_; }  // the present memory does not depend on batches

 private:
  cudaStream_t stream_ = nullptr;
  mutable std::size_t held_ = 0;
  std::size_t fixed_ = 0;
};

// A mark in a stream. One that was never recorded counts as passed.
class Event : NonCopyable {
 public:
  Event() { HETSGD_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(event_); }

  void record(const Stream& stream) { HETSGD_CUDA(cudaEventRecord(event_, stream.get())); }
  // wait() blocks the host; hold() blocks later work of `stream`.
  void wait() const { HETSGD_CUDA(cudaEventSynchronize(event_)); }
  void hold(const Stream& stream) const {
    HETSGD_CUDA(cudaStreamWaitEvent(stream.get(), event_, 0));
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Batches differ a little in their nonzeros. With this slack the second largest need not grow
// anything.
constexpr std::size_t with_slack(std::size_t bytes) {
  return bytes + std::min(bytes / 4, std::size_t{16} << 20);
}

// Host memory that the GPU copies from and to by itself. It grows and never shrinks.
class Pinned : NonCopyable {
 public:
  Pinned() = default;
  ~Pinned() { cudaFreeHost(data_); }

  // Contents are undefined after growth. No copy may be in flight.
  std::byte* reserve(std::size_t bytes, const char* purpose) {
    if (bytes > capacity_) {
      cudaFreeHost(std::exchange(data_, nullptr));
      capacity_ = 0;
      const std::size_t size = with_slack(bytes);
      const cudaError_t status = cudaHostAlloc(&data_, size, cudaHostAllocPortable);
      if (status != cudaSuccess) fail_memory(status, size, purpose, 0);
      capacity_ = size;
    }
    return static_cast<std::byte*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t capacity_ = 0;
};

// Device memory, allocated and freed in the order of a stream. It grows and never shrinks.
class DeviceMemory : NonCopyable {
 public:
  explicit DeviceMemory(const Stream& stream) : stream_(stream) {}
  ~DeviceMemory() { release(); }

  // Room for `count` elements; contents are undefined after growth. Valid for later work of the
  // stream. Never null.
  template <class T>
  T* reserve(std::size_t count, const char* purpose) {
    const std::size_t bytes = std::max(count * sizeof(T), std::size_t{1});
    if (bytes > capacity_) {
      release();
      const std::size_t size = with_slack(bytes);
      const cudaError_t status = cudaMallocAsync(&data_, size, stream_.get());
      if (status != cudaSuccess) {
        data_ = nullptr;
        stream_.synchronize();  // memory that was given back earlier is free then
        fail_pool(status, size, purpose, stream_.batch_bytes(), stream_.get());
      }
      capacity_ = size;
      stream_.count(size, 0);
    }
    return static_cast<T*>(data_);
  }

 private:
  void release() {
    if (data_ != nullptr) cudaFreeAsync(std::exchange(data_, nullptr), stream_.get());
    stream_.count(0, std::exchange(capacity_, 0));
  }

  const Stream& stream_;
  void* data_ = nullptr;
  std::size_t capacity_ = 0;
};

// Counters in device memory that are 0 between kernels: a kernel that uses them must reset them.
class Counters {
 public:
  explicit Counters(const Stream& stream) : stream_(stream), memory_(stream) {}

  unsigned* reserve(std::size_t count) {
    constexpr const char* kPurpose = "counters of blocks";
    if (count <= count_) return memory_.reserve<unsigned>(count_, kPurpose);
    count_ = std::max(count, 2 * count_);
    auto* const counters = memory_.reserve<unsigned>(count_, kPurpose);
    HETSGD_CUDA(cudaMemsetAsync(counters, 0, count_ * sizeof(unsigned), stream_.get()));
    return counters;
  }

 private:
  const Stream& stream_;
  DeviceMemory memory_;
  std::size_t count_ = 0;
};

}  // namespace hetsgd::cuda
