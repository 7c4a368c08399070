// The options of slide.
#pragma once

#include <cstdint>
#include <optional>

#include "algorithm/parts/row_adam.hpp"
#include "core/options.hpp"
#include "model/labels/label_tables.hpp"

namespace hetsgd {

struct SampledOptions {
  HashOptions hash;
  std::optional<int> bin = {};  // none: hash.bin, or the units of the hidden layer if fewer
  ActiveOptions active;
  Lazy lazy = Lazy::catch_up;
  std::uint32_t bucket = 128;    // rows of a bucket; 0: no limit
  double rehash = 50;            // N0: batches between rehashes
  std::uint32_t rebuild = 1000;  // batches after which functions are new
  std::uint32_t probe = 256;     // test samples on which recall is measured

  void declare(OptionSet& set);
  // Errors: usage, too many buckets.
  void check() const;
  // hash, for a hidden layer of so many units. Errors: usage, too few for a bin.
  HashOptions hash_of(std::size_t units) const;

 private:
  void declare_hash(OptionSet& set);
  void declare_active(OptionSet& set);
};

}  // namespace hetsgd
