#include "table/options.hpp"

#include "core/error.hpp"

namespace hetsgd {

void TableOptions::declare(OptionSet& set) {
  set.add_choice("tables", sharded, {{"replicated", false}, {"sharded", true}},
                 "Where embedding rows lie. replicated: every replica has all rows. sharded: each "
                 "worker has some rows, which the others request from it.");
  set.add("sharding", sharding_text,
          "Division of sharded tables among workers. row deals the rows of every table in turn, "
          "and table assigns whole tables by their load. column:c gives each of c workers a slice "
          "of every row. auto takes table for small tables and row for the others.")
      .needs("tables", {"sharded"});
  set.add("dedup", dedup,
          "Request a row once per batch, even if several samples need it. Results are the same, "
          "and fewer bytes are sent.")
      .needs("tables", {"sharded"});
  set.add_choice("table_exchange", exchange,
                 {{"auto", TableExchange::automatic},
                  {"collective", TableExchange::collective},
                  {"served", TableExchange::served}},
                 "How workers get rows. collective: all workers exchange rows at once. served: "
                 "each worker asks the owners, which answer in order of arrival. auto: collective "
                 "if the algorithm's workers make all their steps together, else served.")
      .needs("tables", {"sharded"});
  set.add_choice("table_storage", storage,
                 {{"device", TableStorage::device},
                  {"host", TableStorage::host},
                  {"hybrid", TableStorage::hybrid}},
                 "Memory in which rows lie. hybrid keeps hot rows on the device and the others on "
                 "the host. The choice changes times, but no other result.")
      .needs("tables", {"sharded"});
  set.add("hot_fraction", hot_fraction,
          "Share of a worker's rows that lies on its device. A device memory m_G and a host memory "
          "m_H are filled together at m_G / (m_G + m_H).")
      .symbol("alpha")
      .range(0, 1)
      .needs("table_storage", {"hybrid"});
  set.add_choice("hot", hot, {{"frequency", HotRows::frequency}, {"random", HotRows::random}},
                 "Rows that --table-storage hybrid keeps on the device: the most frequently used "
                 "ones of --hot-profile batches, or random ones.")
      .needs("table_storage", {"hybrid"});
  set.add("hot_profile", profile_batches,
          "Number of batches of --batch-size samples whose lookups are counted before training, at "
          "most one epoch. The counts serve --hot frequency and --sharding table or auto.")
      .unit("batches")
      .range(1, 1e9)
      .needs("tables", {"sharded"});
  set.add("hot_replace_every", hot_replace_every,
          "Number of updates after which a worker chooses its hot rows again, by recent lookups. "
          "Rows that change their memory cross the host link.")
      .unit("updates")
      .at_least(1)
      .absent("never")
      .needs("table_storage", {"hybrid"});
  replacement.declare(set);
}

void TableOptions::validate() const {
  sharding();
  if (sharded && replacement.capacity && storage == TableStorage::hybrid) {
    refuse("--table-capacity", fmt::format("{} with --table-storage hybrid", *replacement.capacity),
           "device or host: hot rows stay, but rows under a capacity come and go");
  }
  if (sharded && hot_replace_every && storage != TableStorage::hybrid) {
    refuse("--hot-replace-every",
           storage == TableStorage::device ? "--table-storage device" : "--table-storage host",
           "--table-storage hybrid, which has hot rows");
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
  refuse(found, "--tables replicated", "--tables sharded");
}

bool TableOptions::needs_loads() const {
  const Sharding::Kind kind = sharding().kind;
  return kind == Sharding::Kind::table || kind == Sharding::Kind::automatic;
}

}  // namespace hetsgd
