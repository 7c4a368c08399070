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

  void release(std::uint64_t offset, std::uint64_t bytes, Mobility) override {
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

}  // namespace

std::unique_ptr<Pool> make_best_fit(std::uint64_t capacity, std::uint64_t unit) {
  return std::make_unique<BestFit>(capacity, unit);
}

// Paper: Dymem (Yang 2022), 4.1.3.3, figure 4.3: the main space with two arenas, and the
// incremental space.
//
//   0 [ low arena ) L [ gap ) U [ high arena ) capacity   incremental: capacity ...

namespace {

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

  void release(std::uint64_t offset, std::uint64_t bytes, Mobility) override {
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

std::unique_ptr<Pool> make_arenas(std::uint64_t capacity, std::uint64_t unit) {
  return std::make_unique<Arenas>(capacity, unit);
}

}  // namespace hetsgd
