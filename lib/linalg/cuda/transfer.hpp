// Copies between pageable host memory and the GPU, through two pinned chunks in turn. While the GPU
// copies one chunk, the host fills or empties the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "linalg/cuda/resources.hpp"
#include "linalg/operands.hpp"

namespace hetsgd::cuda {

// The copies of one stream. Not thread-safe.
class Transfer {
 public:
  explicit Transfer(const Stream& stream) : stream_(stream) {}

  // Copies in the order of the stream. Returns when `host` may be reused.
  void upload(void* device, const void* host, std::size_t bytes);
  // Returns when `host` holds all bytes.
  void download(void* host, const void* device, std::size_t bytes);

 private:
  static constexpr std::size_t kChunk = std::size_t{4} << 20;
  struct Chunk {
    Pinned memory;
    Event done;  // its last copy
  };

  const Stream& stream_;
  std::array<Chunk, 2> chunks_;
  std::size_t next_ = 0;
};

// One number that is copied back to the host.
class Result final : public DeferredSum::Source {
 public:
  explicit Result(const Stream& stream)
      : stream_(stream),
        memory_(stream),
        device_(memory_.reserve<double>(1, kPurpose)),
        host_(reinterpret_cast<double*>(pinned_.reserve(sizeof(double), kPurpose))) {}

  double* device() const { return device_; }
  // Copies the number after all earlier work of the stream.
  DeferredSum send() {
    HETSGD_CUDA(
        cudaMemcpyAsync(host_, device_, sizeof(double), cudaMemcpyDeviceToHost, stream_.get()));
    sent_.record(stream_);
    return {*this, ++calls_};
  }
  // The number; checks that `call` was the last one.
  double await(std::uint64_t call) const override;

 private:
  static constexpr const char* kPurpose = "a result";
  const Stream& stream_;
  DeviceMemory memory_;
  Pinned pinned_;
  Event sent_;
  std::uint64_t calls_ = 0;
  double* device_;
  double* host_;
};

}  // namespace hetsgd::cuda
