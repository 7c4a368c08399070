// The configuration in a result, which somebody else may have written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hetsgd {

// It decides what a run computes, but neither what it writes nor whether it replaces files: keys of
// options that are no part of a configuration (Option::in_config) are left out, with a warning.
// `path` names the result in it.
nlohmann::json config_of_result(const nlohmann::json& result, const std::string& path);

}  // namespace hetsgd
