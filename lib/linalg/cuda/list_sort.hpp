// Sorts lists of numbers on the GPU, one at a time, in memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/sparse.hpp"

namespace hetsgd::cuda {

class ListSort {
 public:
  explicit ListSort(const Stream& stream)
      : stream_(stream), unsorted_(stream), entries_(stream), columns_(stream), work_(stream) {}

  // The result is valid until the next call. Numbers must be below `most`.
  ByColumn operator()(std::size_t n, const std::uint32_t* numbers, std::size_t most) {
    constexpr const char* kPurpose = "the rows of a batch in order";
    const std::size_t bytes = n > 0 ? sort_bytes(n, most) : 0;
    return sort_list(stream_.get(), n, numbers, most,
                     {unsorted_.reserve<Entry>(n, kPurpose), entries_.reserve<Entry>(n, kPurpose),
                      columns_.reserve<std::uint32_t>(n, kPurpose),
                      work_.reserve<std::byte>(bytes, kPurpose), bytes});
  }

 private:
  const Stream& stream_;
  DeviceMemory unsorted_, entries_, columns_, work_;
};

}  // namespace hetsgd::cuda
