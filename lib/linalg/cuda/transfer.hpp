// Copies between pageable host memory and the GPU, through two pinned chunks in turn: while the GPU
// copies one, the host fills or empties the other.
#pragma once

#include <array>
#include <cstddef>

#include "linalg/cuda/resources.hpp"

namespace hetsgd::cuda {

class Transfer {
 public:
  explicit Transfer(const Stream& stream) : stream_(stream) {}

  // In the order of the stream. Returns when `host` may be reused.
  void upload(void* device, const void* host, std::size_t bytes);
  // Returns when `host` has everything.
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

}  // namespace hetsgd::cuda
