// Replacement: which rows a shard keeps if it has fewer slots than its rank has rows.
//
// absent  -- pin(), into a free slot or an evicted row's --> pinned, at its initial values
// pinned  -- touch() for every lookup that pinned it ------> kept
// kept    -- pin() ----------------------------------------> pinned
// kept    -- evicted for another row ----------------------> absent, values and state are lost
//
// A row is pinned from its lookup to its update, so that a batch updates the rows that it has read.
// Measuring admits no row: an absent row reads as its initial values (table/shard.hpp).
//
// Importance (Sven, equation 6.3), per update of all ranks:
//   w <- (1 - beta) w + beta (p k + n l),  p and n the positive and negative samples with this row.
// All untouched rows decay by one factor. So ln w - t ln(1 - beta), with t the last update that
// touched the row, orders the rows and does not change. Hence a set ordered by it is exact, and
// costs O(log n) per touched row. Ties: the row that was touched earlier, then the lower place.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "core/archive.hpp"
#include "core/non_copyable.hpp"
#include "core/options.hpp"
#include "data/dataset.hpp"

namespace hetsgd {

// Eviction policy among the rows that are not pinned: lowest importance, least recently used, least
// frequently used since the row was admitted, or random.
enum class Evict { importance, lru, lfu, random };

struct ReplacementOptions {
  std::optional<std::uint64_t> capacity;  // rows of all ranks; none: all rows fit
  Evict evict = Evict::importance;
  // Parameters of the importance, with Sven's values: beta, k and l.
  double decay = 0.001;
  double positive = 1, negative = 0.1;

  void declare(OptionSet& set);
  // Slots of a rank that has `rows` of all `of` rows: its part of the capacity, at least one.
  std::size_t slots(std::size_t rows, std::size_t of) const;
};

// The slots of one shard. Not thread-safe.
class Replacement : NonCopyable {
 public:
  Replacement(const ReplacementOptions& options, std::uint64_t seed, std::size_t places,
              std::size_t slots);

  struct Pinned {
    Index slot = 0;
    bool fresh = false;  // newly admitted: the slot still holds another row's values
  };
  // Returns the slot of a row and pins the row once more. Throws Error(runtime) naming
  // --table-capacity if all slots are pinned.
  Pinned pin(Index place);
  // An update begins.
  void begin_update() { ++updates_; }
  // One lookup of this update is over. positives, negatives: samples of the lookup with the row.
  // Call settle() after the touches of all lookups that the update takes together.
  void touch(Index place, std::uint32_t positives, std::uint32_t negatives);
  void settle();

  // The slot of a row; none: it is absent.
  std::optional<Index> slot_of(Index place) const;
  std::uint64_t evicted() const { return evicted_; }
  // No row is pinned any more.
  void unpin();
  void fields(Archive& fields);

 private:
  static constexpr Index kNone = ~Index{0};
  struct Slot {
    Index place = 0;
    std::uint32_t pins = 0;
    std::uint32_t lookups = 0;            // since the row was admitted
    double key = 0;                       // the smallest is evicted first
    std::uint64_t touched = 0;            // the last update that touched it
    double positives = 0, negatives = 0;  // of the update in progress
  };

  void score(Slot& slot);
  // Which of two slots is evicted first: a strict order, since no two slots have the same place.
  struct Before {
    const std::vector<Slot>* slots;
    bool operator()(Index a, Index b) const;
  };

  ReplacementOptions options_;
  std::uint64_t seed_;
  double log_keep_;  // ln(1 - beta)
  std::uint64_t updates_ = 0, evicted_ = 0;
  std::vector<Index> slot_;  // by place
  std::vector<Slot> slots_;  // those in use
  std::size_t most_;         // number of slots
  std::set<Index, Before>
      idle_;  // slots that may go; a slot's key changes while it is not among them
  std::vector<Index> touched_;  // slots of the update in progress, each once
};

}  // namespace hetsgd
