// The machine of a run whose workers are processes, for the result.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace hetsgd {

// `cluster`.`machine` of the result: the MPI library, and the ranks by host, in the order of ranks.
nlohmann::json machine_json(bool service_rank);

}  // namespace hetsgd
