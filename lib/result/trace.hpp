// --trace writes the ranges of a run to a file that Chrome's and Perfetto's trace viewers open.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cluster/trace/trace.hpp"

namespace hetsgd {

// The document in the Trace Event Format. It has complete events ("ph": "X") with ts and dur in
// microseconds of the run's clock. There is one thread per worker and background task, in the order
// of Trace::lines(). The args name iteration (of the process's own steps), batch (samples), bytes,
// wait and transfer, and the process that was waited for. A range contains slices for its wait
// (category "wait") and its injected delay ("delay"). Flow events ("s", "f") lead from a message's
// send to its receive.
nlohmann::json trace_json(const Trace& trace);

}  // namespace hetsgd
