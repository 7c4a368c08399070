// --trace: the ranges of a run as a file that Chrome's and Perfetto's trace viewers open.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cluster/trace/trace.hpp"

namespace hetsgd {

// Trace Event Format: complete events ("ph": "X") with ts and dur in microseconds of the run's
// clock, one thread per worker and background task, in the order of Trace::lines(). Their args name
// iteration (of the process's own steps), batch (samples), bytes, wait and transfer, and for whom
// the process waited. Inside of a range stand its wait (category "wait") and its injected delay
// ("delay"); flow events ("s", "f") lead from a message's send to its receive.
nlohmann::json trace_json(const Trace& trace);

}  // namespace hetsgd
