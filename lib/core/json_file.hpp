// The one way in for JSON that others wrote: configurations, profiles, networks, results, tunings.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hetsgd {

// A result with an event for every step may be long; nothing of ours is deep, and what walks
// through a document calls itself once per level.
inline constexpr std::uint64_t kMostJsonBytes = std::uint64_t{1} << 30;
inline constexpr int kMostJsonLevels = 100;

enum class JsonComments { refused, allowed };  // allowed: // and /* */

// The document in `text`. `place`, a path, opens the messages. Error(data) with place:line:column
// for what is no JSON, for a number that no double holds, and for objects and lists inside each
// other more than kMostJsonLevels deep.
nlohmann::json parse_json(std::string_view text, const std::string& place,
                          JsonComments comments = JsonComments::refused);

// The same of a file of at most kMostJsonBytes. Error(data): missing, unreadable, too large.
nlohmann::json read_json(const std::string& path, JsonComments comments = JsonComments::refused);

}  // namespace hetsgd
