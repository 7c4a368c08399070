// The machine of a run in real time, for the result: a reader of times must see on what hosts and
// cores the workers were, and whether they had them for themselves.
#pragma once

#include "cluster/cluster.hpp"
#include "training/record.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Fills in `cluster`.`machine` of the result where workers are processes (the MPI library, and the
// ranks by host, in the order of ranks), `environment`.`convolution_library` where a GPU of this
// process computes some, the load of the host at the start, and a warning where workers have to take
// turns. Every process may call it, without messages; the record of rank 0 is the one that is
// written. Errors: device, the convolution library is not there.
void describe_machine(const Cluster& cluster, const TrainOptions& options, Record& record);

// The GPU of this process's first worker that has one; -1: none.
int first_gpu(const Cluster& cluster);

}  // namespace hetsgd
