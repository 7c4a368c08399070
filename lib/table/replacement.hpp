// Replacement: which rows a shard keeps where it has fewer slots than its rank has rows.
//
//   absent ──pin(), a slot is free or the least important row goes──> pinned, at its initial values
//   pinned ──touch() of every lookup that pinned it────────────────> kept
//   kept   ──pin()──> pinned        kept ──another row needs its slot──> absent, values and state lost
//
// A row is pinned from its lookup to its update, so that what a batch has read is what it updates.
// Measuring admits nobody: an absent row reads as its initial values (table/shard.hpp).
//
// Importance (paper 004, equation 6.3), per update of all ranks:  w <- (1 - beta) w + beta (p k + n
// l), p and n the positive and the negative samples with this row. All untouched rows decay by one
// factor, so ln w - t ln(1 - beta), t the last update that touched the row, orders them and does
// not change: a set ordered by it is exact, and O(log n) per row that is touched. Ties: the row that was
// touched earlier, then the lower place.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "core/non_copyable.hpp"
#include "core/options.hpp"
#include "data/dataset.hpp"

namespace hetsgd {

// Of the rows that may go, the one that goes: the least important; the one that was touched longest
// ago; that was looked up least often since it came; any.
enum class Evict { importance, lru, lfu, random };

struct ReplacementOptions {
  std::optional<std::uint64_t> capacity;  // rows of all ranks; none: one for each row
  Evict evict = Evict::importance;
  // Of importance, as paper 004 chooses them: beta, k and l.
  double decay = 0.001;
  double positive = 1, negative = 0.1;

  void declare(OptionSet& set);
  // Of a rank that has `rows` of all `of` rows: its part of the capacity, at least one.
  std::size_t slots(std::size_t rows, std::size_t of) const;
};

// The slots of one shard. Not thread-safe.
class Replacement : NonCopyable {
 public:
  Replacement(const ReplacementOptions& options, std::uint64_t seed, std::size_t places,
              std::size_t slots);

  struct Pinned {
    Index slot = 0;
    bool fresh = false;  // it has just come: the slot holds another row's values
  };
  // The slot of a row, which is pinned once more. Errors: runtime, naming --table-capacity: all
  // slots are pinned.
  Pinned pin(Index place);
  // An update begins.
  void begin_update() { ++updates_; }
  // One lookup of this update is over: so many of its samples had the row. After the touches of all
  // lookups that the update takes together: settle().
  void touch(Index place, std::uint32_t positives, std::uint32_t negatives);
  void settle();

  // The slot of a row; none: it is absent.
  std::optional<Index> slot_of(Index place) const;
  std::uint64_t evicted() const { return evicted_; }

 private:
  static constexpr Index kNone = ~Index{0};
  struct Slot {
    Index place = 0;
    std::uint32_t pins = 0;
    std::uint32_t lookups = 0;            // since it came
    double key = 0;                       // the smallest goes first
    std::uint64_t touched = 0;            // by which update last
    double positives = 0, negatives = 0;  // of the update under way
  };

  void score(Slot& slot);
  // Which of two slots goes first: a strict order, since no two have one place.
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
  std::size_t most_;         // slots that there are
  std::set<Index, Before>
      idle_;  // slots that may go; a slot's key changes while it is not among them
  std::vector<Index> touched_;  // slots of the update under way, each once
};

}  // namespace hetsgd
