// The distinct numbers of a list, in the order in which they first occur.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hetsgd {

// An open hash table of a power of two places, at most half full, each with the slot of its number.
// A place is in use where its stamp is that of the round, so nothing is cleared between two of
// them. Not thread-safe.
class DistinctNumbers {
 public:
  // Forgets what was found. most: numbers that a round has at most.
  void begin(std::size_t most) {
    shift_ = 32;
    while ((std::size_t{1} << (32 - shift_)) < 2 * most) --shift_;
    const std::size_t places = std::size_t{1} << (32 - shift_);
    if (places > places_.size()) {
      places_.assign(places, {});
      stamp_ = 0;
    }
    if (++stamp_ == 0) {
      std::fill(places_.begin(), places_.end(), Place{});
      stamp_ = 1;
    }
    mask_ = places - 1;
    found_.clear();
  }

  // Its slot, 0, 1, ... in the order of the first calls.
  std::size_t slot(std::uint32_t number) {
    std::size_t at = number * 2654435769U >> shift_;
    while (places_[at].stamp == stamp_) {
      if (places_[at].number == number) return places_[at].slot;
      at = (at + 1) & mask_;
    }
    places_[at] = {stamp_, number, static_cast<std::uint32_t>(found_.size())};
    found_.push_back(number);
    return found_.size() - 1;
  }

  const std::vector<std::uint32_t>& found() const { return found_; }

 private:
  struct Place {
    std::uint32_t stamp = 0, number = 0, slot = 0;
  };
  std::vector<Place> places_;
  std::vector<std::uint32_t> found_;
  std::uint32_t stamp_ = 0;
  unsigned shift_ = 32;  // of the hash, which has 32 bits
  std::size_t mask_ = 0;
};

}  // namespace hetsgd
