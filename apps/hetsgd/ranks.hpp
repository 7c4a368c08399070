// What the processes that run a command do together, beside the training.
#pragma once

#include <string>

#include "cluster/process_group.hpp"
#include "core/options.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// The processes that the launcher of this one has started. Errors: as processes_of().
ProcessGroup& launched_processes(Seconds peer_timeout = kPeerTimeout);

// Collective, before anything else that is: the processes must be the same program, with the same
// command and configuration. Where files are is each one's own affair; run_one() compares the data.
// Errors: as ProcessGroup::call_the_roll().
void call_the_roll(const std::string& command, const OptionSet& set, Seconds peer_timeout);

// Before options are read: only the first of several processes uses stderr.
void start_log_as_rank();

// Logging as --quiet, --color and --log-dir say; only rank 0 uses stderr. Errors:
// runtime (no such file can be written).
void start_log_as(const TrainOptions& options);

}  // namespace hetsgd
