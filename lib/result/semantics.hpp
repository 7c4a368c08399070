// What the schema cannot say about a result; used by validate.cpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "result/validate.hpp"

namespace hetsgd {

// Appends what is wrong with a result that has the shape of the schema.
void check_semantics(const nlohmann::json& result, std::vector<Finding>& findings);

}  // namespace hetsgd
