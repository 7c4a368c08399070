#include "memory/best_fit.hpp"

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

  // Up to the end of the highest block.
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

}  // namespace hetsgd
