// A hash table from 32-bit values to 32-bit numbers above 0, for counting at the speed of memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hetsgd {

// Open addressing with linear probing, at most half full.
class ValueTable {
 public:
  struct Slot {
    std::uint32_t value = 0;
    std::uint32_t number = 0;  // 0: the slot is free
  };

  explicit ValueTable(std::size_t expected = 0)
      : slots_(std::bit_ceil(std::max<std::size_t>(2 * expected, 64))) {}

  // Adds one to the count of `value`, which begins at 0 and stays below 2^32.
  void count(std::uint32_t value) {
    Slot& slot = slots_[place_of(value)];
    if (slot.number++ > 0) return;
    slot.value = value;
    if (2 * ++used_ > slots_.size()) grow();
  }
  // Inserts `value`, which must not be there yet; `number` is above 0.
  void insert(std::uint32_t value, std::uint32_t number) {
    slots_[place_of(value)] = {value, number};
    if (2 * ++used_ > slots_.size()) grow();
  }
  // The number of `value`; 0 if it is not there.
  std::uint32_t find(std::uint32_t value) const { return slots_[place_of(value)].number; }

  std::size_t size() const { return used_; }
  const std::vector<Slot>& slots() const { return slots_; }

 private:
  // The slot of the value, or the free slot where it belongs.
  std::size_t place_of(std::uint32_t value) const {
    const std::size_t last = slots_.size() - 1;
    std::size_t place = (value * 0x9E3779B97F4A7C15ULL) >> 32 & last;
    while (slots_[place].number > 0 && slots_[place].value != value) place = (place + 1) & last;
    return place;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number > 0) slots_[place_of(slot.value)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace hetsgd
