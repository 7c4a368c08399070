// The output of `hetsgd data info`.
#pragma once

#include <optional>

#include "data/generate_ctr.hpp"
#include "data/load.hpp"
#include "data/summary.hpp"
#include "printer.hpp"

namespace hetsgd {

// `ceilings` are set for synthetic click data.
void print_summary(const DatasetSummary& summary, const LoadReport& report,
                   const std::optional<ClickCeilings>& ceilings, const Printer& printer);

}  // namespace hetsgd
