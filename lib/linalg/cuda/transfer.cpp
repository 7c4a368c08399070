#include "linalg/cuda/transfer.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

namespace hetsgd::cuda {

namespace {

constexpr const char* kPurpose = "copies to and from the GPU";

}  // namespace

void Transfer::upload(void* device, const void* host, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kChunk, ++next_) {
    const std::size_t size = std::min(bytes - at, kChunk);
    Chunk& chunk = chunks_[next_ % 2];
    chunk.done.wait();
    std::byte* const pinned = chunk.memory.reserve(std::min(bytes, kChunk), kPurpose);
    std::memcpy(pinned, static_cast<const std::byte*>(host) + at, size);
    HETSGD_CUDA(cudaMemcpyAsync(static_cast<std::byte*>(device) + at, pinned, size,
                                cudaMemcpyHostToDevice, stream_.get()));
    chunk.done.record(stream_);
  }
}

void Transfer::download(void* host, const void* device, std::size_t bytes) {
  const auto ask = [&](std::size_t at, Chunk& chunk) {
    chunk.done.wait();  // an upload may still be reading it
    std::byte* const pinned = chunk.memory.reserve(std::min(bytes, kChunk), kPurpose);
    HETSGD_CUDA(cudaMemcpyAsync(pinned, static_cast<const std::byte*>(device) + at,
                                std::min(bytes - at, kChunk), cudaMemcpyDeviceToHost,
                                stream_.get()));
    chunk.done.record(stream_);
  };
  if (bytes > 0) ask(0, chunks_[next_ % 2]);
  for (std::size_t at = 0; at < bytes; at += kChunk, ++next_) {
    if (at + kChunk < bytes) ask(at + kChunk, chunks_[(next_ + 1) % 2]);
    Chunk& chunk = chunks_[next_ % 2];
    chunk.done.wait();
    std::memcpy(static_cast<std::byte*>(host) + at,
                chunk.memory.reserve(std::min(bytes, kChunk), kPurpose),
                std::min(bytes - at, kChunk));
  }
}

double Result::await(std::uint64_t call) const {
  HETSGD_CHECK_EQ(call, calls_);
  sent_.wait();
  return *host_;
}

}  // namespace hetsgd::cuda
