// A memory pool: requests in, offsets out. It stores nothing; the planner runs it ahead of time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace hetsgd {

// The group of an allocation (Dymem, 4.1.3.2) in the pass in which it is made.
enum class Mobility { movable, temporary, reclaimed, workspace };

inline constexpr std::uint64_t kPoolUnit = 512;  // bytes; requests round up to it

// A free range of addresses, in bytes.
struct FreeBlock {
  std::uint64_t offset, bytes;
  bool operator==(const FreeBlock&) const = default;
};

// Addresses from 0 on. release() must get the offset, size and mobility of the allocation.
class Pool {
 public:
  virtual ~Pool() = default;
  // The offset of `bytes`, rounded up to the pool's unit (at least one unit). Empty: no block fits.
  virtual std::optional<std::uint64_t> allocate(std::uint64_t bytes, Mobility mobility) = 0;
  virtual void release(std::uint64_t offset, std::uint64_t bytes, Mobility mobility) = 0;
  virtual std::uint64_t used() const = 0;                  // bytes in use, holes included
  virtual std::vector<FreeBlock> free_blocks() const = 0;  // by address
  virtual std::uint64_t gap() const = 0;  // between the lowest and the highest arena

  // Equation 4.1: the share of the free bytes that lie in blocks too small for the request; 0 if
  // nothing is free.
  double unusable(std::uint64_t request) const;
};

inline constexpr std::uint64_t rounded(std::uint64_t bytes, std::uint64_t unit) {
  return bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
}

// A pool that works as CNMeM: the smallest free block that fits, the lowest of equal ones, its low
// end. It ignores mobility.
std::unique_ptr<Pool> make_best_fit(std::uint64_t capacity, std::uint64_t unit = kPoolUnit);

// The arenas of Dymem, 4.1.3.3: a low arena for movable tensors and a high one for temporary ones,
// with the gap between them, of `capacity` bytes together. Each reclaimed tensor has a block of its
// own outside, whose offset is `capacity` or more and which only counts as used.
std::unique_ptr<Pool> make_arenas(std::uint64_t capacity, std::uint64_t unit = kPoolUnit);

// The free blocks of a range of addresses, merged with their neighbours.

class FreeBlocks {
 public:
  enum class Tie { lowest, highest };

  // The index of the smallest block that fits.
  std::optional<std::size_t> best(std::uint64_t bytes, Tie tie = Tie::lowest) const {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].bytes < bytes) continue;
      const bool better = !found || blocks_[i].bytes < blocks_[*found].bytes ||
                          (tie == Tie::highest && blocks_[i].bytes == blocks_[*found].bytes);
      if (better) found = i;
    }
    return found;
  }

  std::uint64_t take_low(std::size_t index, std::uint64_t bytes) {
    FreeBlock& block = blocks_[index];
    const std::uint64_t offset = block.offset;
    block.offset += bytes;
    shrink(index, bytes);
    return offset;
  }

  std::uint64_t take_high(std::size_t index, std::uint64_t bytes) {
    const std::uint64_t end = blocks_[index].offset + blocks_[index].bytes;
    shrink(index, bytes);
    return end - bytes;
  }

  // Adds a block, merges it with both neighbours, and returns the merged block's index.
  std::size_t put(FreeBlock freed) {
    std::size_t i = 0;
    while (i < blocks_.size() && blocks_[i].offset < freed.offset) ++i;
    const auto at = [&](std::size_t index) {
      return blocks_.begin() + static_cast<std::ptrdiff_t>(index);
    };
    blocks_.insert(at(i), freed);
    if (i + 1 < blocks_.size() && freed.offset + freed.bytes == blocks_[i + 1].offset) {
      blocks_[i].bytes += blocks_[i + 1].bytes;
      blocks_.erase(at(i + 1));
    }
    if (i > 0 && blocks_[i - 1].offset + blocks_[i - 1].bytes == blocks_[i].offset) {
      blocks_[i - 1].bytes += blocks_[i].bytes;
      blocks_.erase(at(i));
      --i;
    }
    return i;
  }

  FreeBlock remove(std::size_t index) {
    const FreeBlock block = blocks_[index];
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index));
    return block;
  }

  const std::vector<FreeBlock>& blocks() const { return blocks_; }

 private:
  void shrink(std::size_t index, std::uint64_t bytes) {
    blocks_[index].bytes -= bytes;
    if (blocks_[index].bytes == 0) remove(index);
  }

  std::vector<FreeBlock> blocks_;  // by address, none of them neighbours
};

}  // namespace hetsgd
