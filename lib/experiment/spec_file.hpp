// The specification file of a sweep, TOML or JSON, as a tree. Every part of the tree knows its
// line.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/json_fields.hpp"

namespace hetsgd {

// Keys for human readers of a specification. The program keeps and ignores them.
inline constexpr std::array<std::string_view, 5> kFreeKeys = {"about", "paper", "figure",
                                                              "expectation", "claims"};

// A parsed specification. In `tree` every ${VARIABLE} is replaced. Its methods throw Error(usage).
struct SpecFile : JsonDocument {
  nlohmann::json written;  // without replacements
};

// Reads *.toml as TOML and every other name as JSON (with comments). ${NAME} in texts is replaced
// by the environment's variable. Throws Error(data) if there is no such file or it is neither TOML
// nor JSON, and Error(usage) if a variable is not set. The message has the line.
std::shared_ptr<const SpecFile> read_spec_file(const std::string& path);

}  // namespace hetsgd
