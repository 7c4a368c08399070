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
}

void TableOptions::validate() const {
  sharding();
  if (sharded || (sharding_text == TableOptions().sharding_text && dedup)) return;
  throw with_hint(usage_error("{}: found {} with --tables replicated, expected --tables sharded",
                              dedup ? "--sharding" : "--dedup", dedup ? sharding_text : "false"),
                  "replicated tables are part of every worker's parameters");
}

}  // namespace hetsgd
