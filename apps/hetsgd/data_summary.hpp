// What `hetsgd data info` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "data/generate_ctr.hpp"
#include "data/load.hpp"
#include "data/summary.hpp"

namespace hetsgd {

// `ceilings`: of made-up click data.
nlohmann::json summary_json(const DatasetSummary& summary,
                            const std::optional<ClickCeilings>& ceilings);
std::string summary_text(const DatasetSummary& summary, const LoadReport& report,
                         const std::optional<ClickCeilings>& ceilings);

}  // namespace hetsgd
