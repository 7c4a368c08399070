// The distinct numbers of a list, in the order of their first occurrence.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hetsgd {

// An open hash table with a power of two of places, at most half full, each with the rank of its
// number. Ranks continue from round to round. A place is in use if its rank belongs to this round,
// so nothing is cleared between two rounds. Not thread-safe.
class DistinctNumbers {
 public:
  // Forgets all numbers. `most` is the most numbers that a round may have.
  void begin(std::size_t most) {
    constexpr std::uint32_t kLast = ~std::uint32_t{0};
    shift_ = 32;
    while ((std::size_t{1} << (32 - shift_)) < 2 * most) --shift_;
    const std::size_t places = std::size_t{1} << (32 - shift_);
    first_rank_ += count_;
    count_ = 0;
    if (places > places_.size()) {
      places_.assign(places, 0);
      first_rank_ = 1;
    } else if (most >= kLast - first_rank_) {
      std::fill(places_.begin(), places_.end(), 0);
      first_rank_ = 1;
    }
    mask_ = static_cast<std::uint32_t>(places - 1);
    if (found_.size() <= most) found_.resize(most + 1);
  }

  // The slot of a number: 0, 1, ... in the order of first calls. No processor can predict whether a
  // number is new, so nothing branches on it. The number is written behind those already found,
  // because an unused place leads there.
  std::size_t slot(std::uint32_t number) {
    const std::uint32_t count = count_, first_rank = first_rank_;
    found_[count] = number;
    std::uint32_t at = number * 2654435769U >> shift_;
    std::uint32_t slot = std::min(places_[at] - first_rank, count);
    while (found_[slot] != number) {
      at = (at + 1) & mask_;
      slot = std::min(places_[at] - first_rank, count);
    }
    places_[at] = first_rank + slot;
    count_ = count + (slot == count ? 1 : 0);
    return slot;
  }

  std::size_t count() const { return count_; }
  std::span<const std::uint32_t> found() const { return {found_.data(), count_}; }

 private:
  std::vector<std::uint32_t> places_;  // ranks; 0 and those of older rounds are not in use
  std::vector<std::uint32_t> found_;   // with room for one more than a round may have
  std::uint32_t count_ = 0;            // numbers found in this round
  std::uint32_t first_rank_ = 1;       // first rank of this round
  std::uint32_t mask_ = 0;
  unsigned shift_ = 32;  // of the 32-bit hash
};

}  // namespace hetsgd
