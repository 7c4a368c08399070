// The options of embedding tables: where their rows lie.
#pragma once

#include <optional>
#include <string>

#include "core/options.hpp"
#include "table/placement.hpp"
#include "table/replacement.hpp"
#include "table/tiers.hpp"

namespace hetsgd {

// How workers come by each other's rows: all at once, in collectives; or asking their owners one by
// one (served.hpp).
enum class TableExchange { automatic, collective, served };

struct TableOptions {
  bool sharded = false;  // --tables
  std::string sharding_text = "row";
  bool dedup = true;
  TableExchange exchange = TableExchange::automatic;  // --table-exchange
  TableStorage storage = TableStorage::device;
  double hot_fraction = 0.14;
  std::optional<std::uint64_t> device_memory, host_memory;  // bytes of a worker; both or none
  HostAccess host_access = HostAccess::direct;
  HotRows hot = HotRows::frequency;
  std::uint64_t profile_batches = 1000;  // --hot-profile
  std::optional<std::uint64_t> hot_replace_every;
  std::string hot_sharding_text = "same";
  ReplacementOptions replacement;

  void declare(OptionSet& set);
  // Errors: usage; a layout that is none, or one of replicated tables.
  void validate() const;
  Sharding sharding() const { return parse_sharding(sharding_text, "--sharding"); }
  // None: same.
  std::optional<Sharding> hot_sharding() const { return parse_hot_sharding(hot_sharding_text); }
  void check_capacity() const;
  // Of an algorithm whose workers make all their learning calls together, or not.
  bool served(bool lockstep) const {
    return sharded && (exchange == TableExchange::served ||
                       (exchange == TableExchange::automatic && !lockstep));
  }
  void check_hot_rows() const;
  void check_host_access() const;
  void check_hot_sharding() const;
  // The share of a worker's rows on its device, of hybrid storage: --hot-fraction, or that of the
  // device's memory in both (paper 004, section 6.1.1: m_G / (m_G + m_H)).
  double alpha() const;
  // Whether the plan needs to know what the first batches look up.
  bool needs_loads() const;
  bool needs_counts() const { return storage == TableStorage::hybrid && hot == HotRows::frequency; }
};

}  // namespace hetsgd
