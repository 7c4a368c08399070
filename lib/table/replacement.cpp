#include "table/replacement.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

void ReplacementOptions::declare(OptionSet& set) {
  set.add("table_capacity", capacity,
          "Number of rows that all workers keep together. all: every row. If there is no room, a "
          "new row replaces one that --evict chooses, whose values are lost.")
      .unit("rows")
      .at_least(1)
      .absent("all")
      .needs("tables", {"sharded"});
  set.add_choice("evict", evict,
                 {{"importance", Evict::importance},
                  {"lru", Evict::lru},
                  {"lfu", Evict::lfu},
                  {"random", Evict::random}},
                 "Eviction policy when --table-capacity is full: lowest importance (Sven), least "
                 "recently used, least frequently used, or random.")
      .needs("table_capacity");
}

std::size_t ReplacementOptions::slots(std::size_t rows, std::size_t of) const {
  if (!capacity || rows == 0) return rows;
  // The product comes first, so that a capacity for all rows gives every row a slot, without
  // rounding.
  const double part =
      static_cast<double>(rows) * static_cast<double>(*capacity) / static_cast<double>(of);
  return static_cast<std::size_t>(std::clamp(part, 1.0, static_cast<double>(rows)));
}

Replacement::Replacement(const ReplacementOptions& options, std::uint64_t seed, std::size_t places,
                         std::size_t slots)
    : options_(options),
      seed_(seed),
      log_keep_(std::log1p(-options.decay)),
      slot_(places, kNone),
      most_(slots),
      idle_(Before{&slots_}) {
  slots_.reserve(slots);
}

std::optional<Index> Replacement::slot_of(Index place) const {
  if (slot_[place] == kNone) return std::nullopt;
  return slot_[place];
}

Replacement::Pinned Replacement::pin(Index place) {
  if (const Index slot = slot_[place]; slot != kNone) {
    if (slots_[slot].pins++ == 0) idle_.erase(slot);
    return {slot, false};
  }
  Index slot = 0;
  if (slots_.size() < most_) {
    slot = static_cast<Index>(slots_.size());
    slots_.emplace_back();
  } else if (!idle_.empty()) {
    slot = idle_.extract(idle_.begin()).value();
    slot_[slots_[slot].place] = kNone;
    ++evicted_;
  } else {
    refuse("--table-capacity", fmt::format("room for {} rows on a worker", most_),
           "room for all rows that the batches in flight look up",
           "a smaller --batch-size needs less", ExitCode::runtime);
  }
  slots_[slot] = {.place = place, .pins = 1};
  slot_[place] = slot;
  return {slot, true};
}

void Replacement::unpin() {
  touched_.clear();
  for (Index number = 0; number < slots_.size(); ++number) {
    if (std::exchange(slots_[number].pins, 0) > 0) idle_.insert(number);
  }
}

void Replacement::fields(Archive& fields) {
  if (fields.is_loading()) {
    idle_.clear();  // before the slots, by which it is ordered
    touched_.clear();
  }
  fields("updates", updates_);
  fields("evicted", evicted_);
  fields("slot", slot_);
  fields("slots", slots_);
  if (!fields.is_loading()) return;
  slots_.reserve(most_);
  for (Index number = 0; number < slots_.size(); ++number) idle_.insert(number);
}

void Replacement::touch(Index place, std::uint32_t positives, std::uint32_t negatives) {
  const Index number = slot_[place];
  HETSGD_CHECK(number != kNone);
  Slot& slot = slots_[number];
  HETSGD_CHECK_LT(0U, slot.pins);
  if (slot.positives + slot.negatives == 0) touched_.push_back(number);
  slot.positives += positives;
  slot.negatives += negatives;
  slot.lookups += positives + negatives;
  --slot.pins;
}

void Replacement::settle() {
  for (const Index number : touched_) {
    Slot& slot = slots_[number];
    score(slot);
    slot.touched = updates_;
    slot.positives = slot.negatives = 0;
    if (slot.pins == 0) idle_.insert(number);
  }
  touched_.clear();
}

void Replacement::score(Slot& slot) {
  const auto now = static_cast<double>(updates_);
  switch (options_.evict) {
    case Evict::importance: {
      // `left` is the weight w that remained when this update came; `brought` is what the update
      // adds.
      const double left = slot.touched == 0 ? 0 : std::exp(slot.key + now * log_keep_);
      const double brought =
          slot.positives * options_.positive + slot.negatives * options_.negative;
      slot.key = std::log(left + options_.decay * brought) - now * log_keep_;
      return;
    }
    case Evict::lru:
      slot.key = now;
      return;
    case Evict::lfu:
      slot.key = slot.lookups;
      return;
    case Evict::random:
      slot.key =
          RandomStream(seed_, Purpose::hashing, slot.place, static_cast<std::uint32_t>(updates_))
              .uniform();
      return;
  }
}

bool Replacement::Before::operator()(Index a, Index b) const {
  const Slot &one = (*slots)[a], &other = (*slots)[b];
  if (one.key != other.key) return one.key < other.key;
  if (one.touched != other.touched) return one.touched < other.touched;
  return one.place < other.place;
}

}  // namespace hetsgd
