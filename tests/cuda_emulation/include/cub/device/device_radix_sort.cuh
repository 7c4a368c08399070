// cub::DeviceRadixSort, as one operation of the stream.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "cuda_kernel_language.h"

namespace cub {

struct DeviceRadixSort {
  // Stable, by the bits [begin_bit, end_bit) of the keys. Without memory: how much it needs.
  template <class Key, class Value, class Count>
  static cudaError_t SortPairs(void* memory, std::size_t& bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, Count count,
                               int begin_bit, int end_bit, cudaStream_t stream) {
    const std::size_t n = static_cast<std::size_t>(count), needed = 64 + n;
    if (memory == nullptr) {
      bytes = needed;
      return cudaSuccess;
    }
    if (bytes < needed) return cudaErrorInvalidValue;
    const int width = end_bit - begin_bit;
    const Key mask = width >= int{sizeof(Key)} * 8 ? ~Key{0} : (Key{1} << width) - 1;
    return hetsgd_emulation::enqueue(stream, [=] {
      std::vector<std::size_t> order(n);
      std::iota(order.begin(), order.end(), std::size_t{0});
      const auto digit = [&](std::size_t i) { return (keys[i] >> begin_bit) & mask; };
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return digit(a) < digit(b); });
      for (std::size_t i = 0; i < n; ++i) {
        sorted_keys[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
  }
};

}  // namespace cub
