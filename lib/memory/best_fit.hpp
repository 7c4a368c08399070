// The free blocks of a range of addresses, merged with their neighbours.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memory/pool.hpp"

namespace hetsgd {

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

  // Merges with both neighbours; returns the merged block's index.
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
