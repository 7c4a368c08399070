// The output of `hetsgd data info`.
#pragma once

#include <optional>

#include "data/generate_ctr.hpp"
#include "data/generate_language.hpp"
#include "data/load.hpp"
#include "data/summary.hpp"
#include "printer.hpp"

namespace hetsgd {

// Limits that no model can beat on synthetic data of a known law.
struct KnownLimits {
  std::optional<ClickCeilings> clicks;
  std::optional<LanguageBounds> language;
};

void print_summary(const DatasetSummary& summary, const LoadReport& report,
                   const KnownLimits& limits, const Printer& printer);

}  // namespace hetsgd
