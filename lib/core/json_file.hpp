// The only reader of JSON that others wrote: configurations, profiles, networks, results, tunings.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hetsgd {

// Limits of a document. A result with an event for every step may be long. No file of ours is deep,
// and code that walks through a document recurses once per level.
inline constexpr std::uint64_t kMostJsonBytes = std::uint64_t{1} << 30;
inline constexpr int kMostJsonLevels = 100;

enum class JsonComments { refused, allowed };  // allowed: // and /* */

// Parses the document in `text`. `place`, a path, opens the messages. Throws Error(data) with
// place:line:column for text that is no JSON, for a number that no double holds, for a key that an
// object has twice, and for objects and lists nested deeper than kMostJsonLevels.
nlohmann::json parse_json(std::string_view text, const std::string& place,
                          JsonComments comments = JsonComments::refused);

// Parses a file of at most kMostJsonBytes. Further errors: Error(data) if it is missing, unreadable
// or too large.
nlohmann::json read_json(const std::string& path, JsonComments comments = JsonComments::refused);

}  // namespace hetsgd
