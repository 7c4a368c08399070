// The options of embedding tables: where their rows lie.
#pragma once

#include <optional>
#include <string>

#include "core/options.hpp"
#include "table/placement.hpp"
#include "table/replacement.hpp"
#include "table/tiers.hpp"

namespace hetsgd {

// How workers get each other's rows: all at once, in collectives; or by asking their owners one by
// one (served.hpp).
enum class TableExchange { automatic, collective, served };

struct TableOptions {
  bool sharded = false;  // --tables
  std::string sharding_text = "row";
  bool dedup = true;
  TableExchange exchange = TableExchange::automatic;  // --table-exchange
  TableStorage storage = TableStorage::device;
  double hot_fraction = 0.14;
  HotRows hot = HotRows::frequency;
  std::uint64_t profile_batches = 1000;  // --hot-profile
  std::optional<std::uint64_t> hot_replace_every;
  ReplacementOptions replacement;

  void declare(OptionSet& set);
  // Throws Error(usage) for an invalid layout, or for a layout of replicated tables.
  void validate() const;
  Sharding sharding() const { return parse_sharding(sharding_text); }
  // Whether the tables are served. lockstep: all workers of the algorithm make their learning calls
  // together.
  bool served(bool lockstep) const {
    return sharded && (exchange == TableExchange::served ||
                       (exchange == TableExchange::automatic && !lockstep));
  }
  // Whether the plan needs to know what the first batches look up.
  bool needs_loads() const;
  bool needs_counts() const { return storage == TableStorage::hybrid && hot == HotRows::frequency; }
};

}  // namespace hetsgd
