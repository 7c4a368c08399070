// --trace: the ranges of a run as a file that Chrome's and Perfetto's trace viewers open.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "training/trace.hpp"

namespace hetsgd {

// Trace Event Format: complete events ("ph": "X") with ts and dur in microseconds of the run's
// clock, one thread per worker and background task, in the order of Trace::lines().
nlohmann::json trace_json(const Trace& trace);

}  // namespace hetsgd
