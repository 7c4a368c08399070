#include "memory/pool.hpp"

#include <algorithm>

namespace hetsgd {

double Pool::unusable(std::uint64_t request) const {
  double total = 0, usable = 0;
  for (const FreeBlock& block : free_blocks()) {
    total += static_cast<double>(block.bytes);
    if (block.bytes >= request) usable += static_cast<double>(block.bytes);
  }
  return total > 0 ? 1 - usable / total : 0;
}

namespace {

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

class BestFit final : public Pool {
 public:
  BestFit(std::uint64_t capacity, std::uint64_t unit)
      : capacity_(capacity / unit * unit), unit_(unit) {
    if (capacity_ > 0) free_.put({0, capacity_});
  }

  std::optional<std::uint64_t> allocate(std::uint64_t bytes, Mobility) override {
    const std::uint64_t size = rounded(bytes, unit_);
    const auto block = free_.best(size);
    if (!block) return std::nullopt;
    return free_.take_low(*block, size);
  }

  void release(std::uint64_t offset, std::uint64_t bytes) override {
    free_.put({offset, rounded(bytes, unit_)});
  }

  // The bytes up to the end of the highest block.
  std::uint64_t used() const override { return capacity_ - gap(); }
  std::vector<FreeBlock> free_blocks() const override { return free_.blocks(); }
  std::uint64_t gap() const override {
    const std::vector<FreeBlock>& blocks = free_.blocks();
    const bool open = !blocks.empty() && blocks.back().offset + blocks.back().bytes == capacity_;
    return open ? blocks.back().bytes : 0;
  }

 private:
  std::uint64_t capacity_, unit_;
  FreeBlocks free_;
};

// Paper: Dymem (Yang 2022), 4.1.3.3, figure 4.3: the main space with two arenas, and the
// incremental space.
//
//   0 [ low arena ) L [ gap ) U [ high arena ) capacity   incremental: capacity ...
class Arenas final : public Pool {
 public:
  Arenas(std::uint64_t capacity, std::uint64_t unit)
      : capacity_(capacity / unit * unit), unit_(unit), upper_(capacity_) {
    constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 60;
    incremental_.put({capacity_, kUnlimited});
  }

  std::optional<std::uint64_t> allocate(std::uint64_t bytes, Mobility mobility) override {
    const std::uint64_t size = rounded(bytes, unit_);
    switch (mobility) {
      case Mobility::movable:
        if (const auto hole = low_.best(size)) return low_.take_low(*hole, size);
        if (gap() >= size) return take_gap_low(size);
        if (const auto hole = high_.best(size)) return high_.take_low(*hole, size);
        return std::nullopt;
      case Mobility::temporary:
        if (const auto hole = high_.best(size, FreeBlocks::Tie::highest)) {
          return high_.take_high(*hole, size);
        }
        if (gap() >= size) return upper_ -= size;
        if (const auto hole = low_.best(size)) return low_.take_low(*hole, size);
        return std::nullopt;
      case Mobility::reclaimed: {
        incremental_used_ += size;
        return incremental_.take_low(*incremental_.best(size), size);
      }
      case Mobility::workspace:
        break;
    }
    if (gap() >= size) return take_gap_low(size);
    if (const auto hole = low_.best(size)) return low_.take_low(*hole, size);
    if (const auto hole = high_.best(size)) return high_.take_low(*hole, size);
    return std::nullopt;
  }

  void release(std::uint64_t offset, std::uint64_t bytes) override {
    const std::uint64_t size = rounded(bytes, unit_);
    if (offset >= capacity_) {
      incremental_.put({offset, size});
      incremental_used_ -= size;
    } else if (offset < lower_) {
      const std::size_t hole = low_.put({offset, size});
      const FreeBlock merged = low_.blocks()[hole];
      if (merged.offset + merged.bytes == lower_) lower_ = low_.remove(hole).offset;
    } else {
      const std::size_t hole = high_.put({offset, size});
      const FreeBlock merged = high_.blocks()[hole];
      if (merged.offset == upper_) {
        high_.remove(hole);
        upper_ += merged.bytes;
      }
    }
  }

  std::uint64_t used() const override { return lower_ + capacity_ - upper_ + incremental_used_; }
  std::uint64_t gap() const override { return upper_ - lower_; }
  std::vector<FreeBlock> free_blocks() const override {
    std::vector<FreeBlock> blocks = low_.blocks();
    if (gap() > 0) blocks.push_back({lower_, gap()});
    blocks.insert(blocks.end(), high_.blocks().begin(), high_.blocks().end());
    return blocks;
  }

 private:
  std::uint64_t take_gap_low(std::uint64_t size) {
    const std::uint64_t offset = lower_;
    lower_ += size;
    return offset;
  }

  std::uint64_t capacity_, unit_;
  std::uint64_t lower_ = 0, upper_;  // L and U
  FreeBlocks low_, high_;            // holes
  FreeBlocks incremental_;
  std::uint64_t incremental_used_ = 0;
};

}  // namespace

std::unique_ptr<Pool> make_best_fit(std::uint64_t capacity, std::uint64_t unit) {
  return std::make_unique<BestFit>(capacity, unit);
}

std::unique_ptr<Pool> make_arenas(std::uint64_t capacity, std::uint64_t unit) {
  return std::make_unique<Arenas>(capacity, unit);
}

}  // namespace hetsgd
