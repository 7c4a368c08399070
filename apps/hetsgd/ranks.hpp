// The common actions of the processes that run a command, beside the training.
#pragma once

#include <string>

#include "cluster/process_group.hpp"
#include "core/options.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// The processes that the launcher of this one has started. The first call joins them: under MPI it
// initialises MPI, and waits up to peer_timeout for the others. Throws what processes_of() throws.
ProcessGroup& join_launched_processes(Seconds peer_timeout = kPeerTimeout);

// Checks that all processes are the same program, with the same command and configuration. It is
// the first collective call. Paths of files may differ; run_one() compares the data. Throws what
// ProcessGroup::call_the_roll() throws.
void call_the_roll(const std::string& command, const OptionSet& set, Seconds peer_timeout);

// Starts logging before options are read. Only the first of several processes uses stderr.
void start_log_as_rank();

// Starts logging by --quiet, --color and --log-dir. Only rank 0 uses stderr. Throws Error(runtime)
// if the file cannot be written.
void start_log_as(const TrainOptions& options);

}  // namespace hetsgd
