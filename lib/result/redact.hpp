// --redact: a result without the names of hosts and of folders.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace hetsgd {

// In place: every path becomes its last part, every host "host N"; which workers share a host, and
// everything that was measured, stays.
void redact(nlohmann::json& result);

}  // namespace hetsgd
