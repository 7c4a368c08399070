// Draws from a Zipf law in constant time.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

namespace hetsgd {

// Element number r (from 0) has probability proportional to (r + 1)^-exponent.
// Source: alias method, Walker 1977, built as in Vose 1991. Stands still after construction:
// thread-safe.
class ZipfSampler {
 public:
  // `values[r]` is what a draw of r returns; its size is the number of elements (at least 1).
  ZipfSampler(const std::vector<Index>& values, double exponent);

  // Two independent words of 32 random bits -> an element's value.
  Index operator()(std::uint32_t where, std::uint32_t which) const {
    const Slot& slot = slots_[(std::uint64_t{where} * slots_.size()) >> 32];
    return which < slot.threshold ? slot.value : slot.alias;
  }

 private:
  struct Slot {
    std::uint32_t threshold;  // of 2^32: how often the slot gives its own value
    Index value;
    Index alias;
  };
  std::vector<Slot> slots_;
};

}  // namespace hetsgd
