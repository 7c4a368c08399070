// The machine of a run in real time, for the result.
#pragma once

#include "cluster/cluster.hpp"
#include "training/record.hpp"

namespace hetsgd {

// Fills in `cluster`.`machine` of the result where workers are processes (the MPI library, and the
// ranks by host, in the order of ranks), and a warning where workers have to take turns.
void describe_machine(const Cluster& cluster, bool service_rank, Record& record);

}  // namespace hetsgd
