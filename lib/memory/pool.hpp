// A memory pool: requests in, offsets out. It stores nothing; the planner runs it ahead of time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace hetsgd {

// The group of an allocation (Dymem, 4.1.3.2) in the pass that makes it.
enum class Mobility { movable, temporary, reclaimed, workspace };

inline constexpr std::uint64_t kPoolUnit = 512;  // bytes; requests round up to it

// A free range of addresses, in bytes.
struct FreeBlock {
  std::uint64_t offset, bytes;
  bool operator==(const FreeBlock&) const = default;
};

// Addresses from 0 on. release() must get the offset and the size of an allocation.
class Pool {
 public:
  virtual ~Pool() = default;
  // The offset of `bytes`, rounded up to the pool's unit (at least one unit). Empty: no block fits.
  virtual std::optional<std::uint64_t> allocate(std::uint64_t bytes, Mobility mobility) = 0;
  virtual void release(std::uint64_t offset, std::uint64_t bytes) = 0;
  virtual std::uint64_t used() const = 0;                  // bytes in use, holes included
  virtual std::vector<FreeBlock> free_blocks() const = 0;  // by address
  // Bytes that are free between the arenas, or behind the highest block of a pool without arenas.
  virtual std::uint64_t gap() const = 0;

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

}  // namespace hetsgd
