#include "table/options.hpp"

#include "core/error.hpp"

namespace hetsgd {

void TableOptions::declare(OptionSet& set) {
  set.group("Embedding tables");
  set.add_choice(
      "tables", sharded, {{"replicated", false}, {"sharded", true}},
      "of click-through models: every replica has all rows, or each worker some of them, "
      "which the others ask for");
  set.add(
      "sharding", sharding_text,
      "with --tables sharded: row deals the rows of every table to the workers in turn, table "
      "gives whole tables by their load, column:c gives each of c workers a slice of every row, "
      "auto: table for the small ones, row for the others");
  set.add(
      "dedup", dedup,
      "with --tables sharded: a batch asks once for a row that several of its samples have; the "
      "same numbers in fewer bytes");
  set.add_choice("table_exchange", exchange,
                 {{"auto", TableExchange::automatic},
                  {"collective", TableExchange::collective},
                  {"served", TableExchange::served}},
                 "with --tables sharded: all workers exchange rows together, or each asks their "
                 "owners for itself, whose companions answer in order of arrival; auto: together "
                 "where the algorithm's workers make all their steps together");
  set.add_choice("table_storage", storage,
                 {{"device", TableStorage::device},
                  {"host", TableStorage::host},
                  {"hybrid", TableStorage::hybrid}},
                 "with --tables sharded: in whose memory rows lie; hybrid: the hot ones on the "
                 "device, the others on the host; changes no number but times");
  set.add_choice(
      "host_access", host_access, {{"direct", HostAccess::direct}, {"copy", HostAccess::copy}},
      "with --table-storage host or hybrid, of GPUs: kernels read and write rows in host "
      "memory in place, or the host gathers a batch's into a buffer, which is copied, and "
      "back after the update; changes no number but times");
  set.add("hot_fraction", hot_fraction,
          "with --table-storage hybrid: share of a worker's rows on "
          "its device")
      .symbol("alpha")
      .range(0, 1);
  set.add("device_memory", device_memory,
          "with --table-storage hybrid and --host-memory, in place of --hot-fraction: what a "
          "worker's device has for rows; their share is that of this memory in both")
      .symbol("m_G")
      .unit("bytes")
      .at_least(1)
      .absent("-");
  set.add("host_memory", host_memory, "and what the host has for each worker")
      .symbol("m_H")
      .unit("bytes")
      .at_least(1)
      .absent("-");
  set.add_choice(
      "hot", hot, {{"frequency", HotRows::frequency}, {"random", HotRows::random}},
      "which rows these are: those that the profiled batches look up most often, or any");
  set.add("hot_profile", profile_batches,
          "batches of b_max whose lookups are counted before training, an epoch at most: for --hot "
          "frequency and --sharding table and auto")
      .unit("batches")
      .range(1, 1e9);
  set.add("hot_replace_every", hot_replace_every,
          "with --table-storage hybrid: updates of its rows after which a worker chooses its hot "
          "rows anew, by what it was asked for of late; rows that change their memory cross the "
          "host link")
      .unit("updates")
      .at_least(1)
      .absent("never");
  set.add(
      "hot_sharding", hot_sharding_text,
      "with --table-storage hybrid: same, by which every worker has hot ones of its own rows on "
      "its device, or column:c: the hot rows are chosen from all workers' rows, and each of c "
      "workers has a slice of every one of them on its device");
  replacement.declare(set);
}

void TableOptions::validate() const {
  sharding();
  hot_sharding();
  replacement.validate();
  if (sharded) {
    check_capacity();
    check_hot_sharding();
    check_host_access();
    return check_hot_rows();
  }
  const TableOptions defaults;
  const char* const found = sharding_text != defaults.sharding_text ? "--sharding"
                            : dedup != defaults.dedup               ? "--dedup"
                            : exchange != defaults.exchange         ? "--table-exchange"
                            : storage != defaults.storage           ? "--table-storage"
                            : host_access != defaults.host_access   ? "--host-access"
                            : hot_replace_every                     ? "--hot-replace-every"
                            : hot_sharding()                        ? "--hot-sharding"
                            : device_memory                         ? "--device-memory"
                            : host_memory                           ? "--host-memory"
                            : replacement.capacity                  ? "--table-capacity"
                                                                    : nullptr;
  if (!found) return;
  throw with_hint(
      usage_error("{}: found with --tables replicated, expected --tables sharded", found),
      "replicated tables are part of every worker's parameters");
}

void TableOptions::check_capacity() const {
  if (!replacement.capacity || storage != TableStorage::hybrid) return;
  throw with_hint(usage_error("--table-capacity: found {} with --table-storage hybrid, expected "
                              "device or host",
                              *replacement.capacity),
                  "hot rows are chosen for the whole run, rows under a capacity come and go");
}

void TableOptions::check_hot_rows() const {
  if (device_memory.has_value() != host_memory.has_value()) {
    throw usage_error("{}: found without {}, expected both, or --hot-fraction",
                      device_memory ? "--device-memory" : "--host-memory",
                      device_memory ? "--host-memory" : "--device-memory");
  }
  const char* const found = hot_replace_every ? "--hot-replace-every"
                            : hot_sharding()  ? "--hot-sharding"
                            : device_memory   ? "--device-memory"
                                              : nullptr;
  if (!found || storage == TableStorage::hybrid) return;
  throw with_hint(usage_error("{}: found with --table-storage {}, expected hybrid", found,
                              storage == TableStorage::device ? "device" : "host"),
                  "where all rows lie in one memory there is nothing to choose");
}

void TableOptions::check_hot_sharding() const {
  if (!hot_sharding() || !hot_replace_every) return;
  throw with_hint(usage_error("--hot-sharding: found {} with --hot-replace-every {}, expected same",
                              hot_sharding_text, *hot_replace_every),
                  "hot rows in a layout of their own lie there for the whole run");
}

void TableOptions::check_host_access() const {
  if (host_access == HostAccess::direct || storage != TableStorage::device) return;
  throw with_hint(
      usage_error("--host-access: found copy with --table-storage device, expected host "
                  "or hybrid"),
      "where all rows lie on the devices none is in host memory");
}

double TableOptions::alpha() const {
  if (!device_memory) return hot_fraction;
  const auto device = static_cast<double>(*device_memory), host = static_cast<double>(*host_memory);
  return device / (device + host);
}

bool TableOptions::needs_loads() const {
  const Sharding::Kind kind = sharding().kind;
  return kind == Sharding::Kind::table || kind == Sharding::Kind::automatic;
}

}  // namespace hetsgd
