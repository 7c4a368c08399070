#include "table/options.hpp"

#include "core/error.hpp"

namespace hetsgd {

void TableOptions::declare(OptionSet& set) {
  set.add_choice(
      "tables", sharded, {{"replicated", false}, {"sharded", true}},
      "every replica has all rows, or each worker some of them, which the others ask for");
  set.add(
         "sharding", sharding_text,
         "row deals the rows of every table to the workers in turn, table "
         "gives whole tables by their load, column:c gives each of c workers a slice of every row, "
         "auto: table for the small ones, row for the others")
      .needs("tables", {"sharded"});
  set.add("dedup", dedup,
          "a batch asks once for a row that several of its samples have; the "
          "same numbers in fewer bytes")
      .needs("tables", {"sharded"});
  set.add_choice("table_exchange", exchange,
                 {{"auto", TableExchange::automatic},
                  {"collective", TableExchange::collective},
                  {"served", TableExchange::served}},
                 "all workers exchange rows together, or each asks their "
                 "owners for itself, whose companions answer in order of arrival; auto: together "
                 "where the algorithm's workers make all their steps together")
      .needs("tables", {"sharded"});
  set.add_choice("table_storage", storage,
                 {{"device", TableStorage::device},
                  {"host", TableStorage::host},
                  {"hybrid", TableStorage::hybrid}},
                 "in whose memory rows lie; hybrid: the hot ones on the "
                 "device, the others on the host; changes no number but times")
      .needs("tables", {"sharded"});
  set.add("hot_fraction", hot_fraction,
          "share of a worker's rows on its device; of memories m_G and "
          "m_H of device and host, m_G / (m_G + m_H)")
      .symbol("alpha")
      .range(0, 1)
      .needs("table_storage", {"hybrid"});
  set.add_choice("hot", hot, {{"frequency", HotRows::frequency}, {"random", HotRows::random}},
                 "which rows these are: those that the profiled batches look up most often, or any")
      .needs("table_storage", {"hybrid"});
  set.add("hot_profile", profile_batches,
          "batches of b_max whose lookups are counted before training, an epoch at most: for --hot "
          "frequency and --sharding table and auto")
      .unit("batches")
      .range(1, 1e9)
      .needs("tables", {"sharded"});
  set.add("hot_replace_every", hot_replace_every,
          "updates of its rows after which a worker chooses its hot "
          "rows anew, by what it was asked for of late; rows that change their memory cross the "
          "host link")
      .unit("updates")
      .at_least(1)
      .absent("never")
      .needs("table_storage", {"hybrid"});
  replacement.declare(set);
}

void TableOptions::validate() const {
  sharding();
  if (sharded && replacement.capacity && storage == TableStorage::hybrid) {
    throw with_hint(usage_error("--table-capacity: found {} with --table-storage hybrid, expected "
                                "device or host",
                                *replacement.capacity),
                    "hot rows are chosen for the whole run, rows under a capacity come and go");
  }
  if (sharded && hot_replace_every && storage != TableStorage::hybrid) {
    throw with_hint(
        usage_error("--hot-replace-every: found with --table-storage {}, expected hybrid",
                    storage == TableStorage::device ? "device" : "host"),
        "where all rows lie in one memory there is nothing to choose");
  }
  if (sharded) return;
  const TableOptions defaults;
  const char* const found = sharding_text != defaults.sharding_text ? "--sharding"
                            : dedup != defaults.dedup               ? "--dedup"
                            : exchange != defaults.exchange         ? "--table-exchange"
                            : storage != defaults.storage           ? "--table-storage"
                            : hot_replace_every                     ? "--hot-replace-every"
                            : replacement.capacity                  ? "--table-capacity"
                                                                    : nullptr;
  if (!found) return;
  throw with_hint(
      usage_error("{}: found with --tables replicated, expected --tables sharded", found),
      "replicated tables are part of every worker's parameters");
}

bool TableOptions::needs_loads() const {
  const Sharding::Kind kind = sharding().kind;
  return kind == Sharding::Kind::table || kind == Sharding::Kind::automatic;
}

}  // namespace hetsgd
