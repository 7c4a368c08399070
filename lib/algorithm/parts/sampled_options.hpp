// The options of slide, beside those of its hash tables (model/labels/hashed_labels.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include "algorithm/parts/row_adam.hpp"
#include "core/options.hpp"
#include "model/labels/label_tables.hpp"

namespace hetsgd {

struct SampledOptions {
  ActiveOptions active;
  Lazy lazy = Lazy::catch_up;
  std::uint32_t probe = 256;  // test samples on which recall is measured

  void declare(OptionSet& set);

 private:
  void declare_active(OptionSet& set);
};

}  // namespace hetsgd
