// The file of a sweep's specification, TOML or JSON, as a tree of which every part knows its place.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/json_fields.hpp"

namespace hetsgd {

// Keys for the readers of a specification: kept, and never looked at.
inline constexpr std::array<std::string_view, 5> kFreeKeys = {"about", "paper", "figure",
                                                              "expectation", "claims"};
bool is_free_key(std::string_view key);

// `tree` has ${VARIABLE} replaced; errors are of usage.
struct SpecFile : JsonDocument {
  nlohmann::json written;  // as it stands in the file
};

// Reads *.toml as TOML and every other name as JSON (with comments). ${NAME} in texts is replaced
// by the environment's variable. Errors: data (no such file, neither TOML nor JSON), usage (a
// variable that is not set), with the line.
std::shared_ptr<const SpecFile> read_spec_file(const std::string& path);

}  // namespace hetsgd
