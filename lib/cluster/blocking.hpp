// Where a process is blocked, in words. All clusters use these texts, so that a deadlock reads the
// same everywhere, and a test of one cluster's report holds for the others.
//
// Each cluster has its own sign of a deadlock. In sim no event is left. In threads every process is
// blocked. In mpi all ranks vote that nothing has moved on them for the peer timeout.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/units.hpp"

namespace hetsgd {

// --- names of processes ------------------------------------------------------------------------
std::string worker_name(int rank);  // worker 2
std::string background_task_name(std::string_view name,
                                 int rank);       // background task "comm" of worker 1
std::string service_name(std::string_view name);  // service "scheduler"

// --- blocking points ---------------------------------------------------------------------------
// These texts are made for a report only, not when a process blocks: clusters keep a callable that
// makes the text.
std::string blocked_in_receive(int from, int tag);   // receives from 1, tag 7  (from any, ...)
std::string blocked_in_sendrecv(int peer, int tag);  // exchanges with 1, tag 7
std::string blocked_in_collective(std::string_view collective, int arrived, int size);
// waits in all_reduce (3 of 4 arrived)
std::string blocked_in_started(std::string_view collective);  // waits for its started all_reduce
std::string blocked_in_call(std::string_view service);        // waits for service "scheduler"
std::string blocked_in_monitor(std::string_view what);        // waits: <what>
std::string blocked_on_lock();                                // waits for the lock of a monitor
inline constexpr std::string_view kServiceIdle = "idle";
inline constexpr std::string_view kEnded =
    "has ended";  // listed as well, because others may wait for it in vain

// --- the report --------------------------------------------------------------------------------
struct BlockedProcess {
  std::string name;            // as above
  std::string blocking_point;  // as above
  Seconds since{0};            // training clock
};

// Returns Error(runtime) "deadlock: no process can go on", then one line per process in the order
// given:
//   worker 0: receives from 1, tag 7 (since 0.250 s)
//   service "scheduler": idle (since 0.001 s)
Error deadlock_error(std::span<const BlockedProcess> processes);

}  // namespace hetsgd
