// The options of embedding tables: where their rows lie.
#pragma once

#include <string>

#include "core/options.hpp"
#include "table/placement.hpp"

namespace hetsgd {

struct TableOptions {
  bool sharded = false;  // --tables
  std::string sharding_text = "row";
  bool dedup = true;

  void declare(OptionSet& set);
  // Errors: usage; a layout that is none, or one of replicated tables.
  void validate() const;
  Sharding sharding() const { return parse_sharding(sharding_text, "--sharding"); }
};

}  // namespace hetsgd
