// What the processes of `--cluster mpi` do together, beside the training.
#pragma once

#include <functional>
#include <string>

#include "cluster/mpi/mpi_cluster.hpp"
#include "core/options.hpp"
#include "training/record.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// How long processes that run a command together wait for each other.
struct Patience {
  Seconds start = kStartTimeout;               // to come to the start
  Seconds peer = TrainOptions().peer_timeout;  // for a sign of life
};

// Collective, before anything else that is: the processes must be the same program, with the same
// command and configuration. Where files are is each one's own affair; check_data() compares them.
// Errors: as mpi_call_the_roll().
void call_the_roll(const std::string& command, const OptionSet& set, const Patience& patience);
// Collective: they have read the same data. Errors: usage.
void check_data(const TrainOptions& options, const Record& record);

// Whether this process talks and writes: rank 0 does, and every process of another cluster.
bool speaks(const TrainOptions& options);

// Runs `fn` on all processes and returns what it returned on the one that speaks. Collective. The
// error of one is an error of all, with its text and exit code.
double together(const TrainOptions& options, const std::function<double()>& fn);

// Runs `fn` on rank 0 alone; its error is an error of all. Collective.
void rank_0_decides(const std::function<void()>& fn, Seconds peer_timeout);

// decide() of the process that speaks, on all of them. Collective.
bool decide_together(const TrainOptions& options, const std::function<bool()>& decide);

// In a catch block of all processes: throws the error of the lowest of them.
[[noreturn]] void rethrow_together();

// Before options are read: only the first of several processes uses stderr.
void start_talking_as_rank();

// Talking as --quiet, --color and --log-dir say; only the process that speaks uses stderr. Errors:
// runtime (no such file can be written).
void start_talking_as(const TrainOptions& options);

}  // namespace hetsgd
