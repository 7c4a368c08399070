// Workers that have to take turns on their cores: their times are no measurement, and the result
// says so. A run is not refused for it.
//
//   wanted     the cores of each worker's device ("cpu:2": 2; a GPU's host side: 1), and 1 for a
//              rank that runs services
//   available  the cores that the host's processes are bound to, together; on this host no more
//              than its control groups grant
//
// Of other hosts' control groups nothing is known here, so an oversubscribed host may go unnoticed there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "training/record.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

struct HostShare {
  std::string host;  // "": this one
  int workers = 0;
  int wanted = 0;        // cores of all workers, and one for a rank of services
  double available = 0;  // that the processes may use
};
// The warning, in the wording of the result; "": everybody has its cores.
std::string oversubscription_of(const HostShare& share);

// For a cluster in real time, host by host; {} for a simulated one, whose clock no core slows.
// Needs no message: what the processes know of each other was exchanged when they joined.
std::vector<std::string> oversubscription_warnings(const Cluster& cluster);

// What else wants to run on this host at the start of a run in real time; none: the cluster is
// simulated, or the system does not say it. Takes 20 ms.
std::optional<HostLoad> host_load(const Cluster& cluster);
// Adds the load at the end of the run, and a warning if the workers had to share their cores.
void finish_host_load(const ProcessPlace& here, Record& record);

// So many cores the control group of this process gives it (cpu.max, cpu.cfs_quota_us), or
// infinity. Quota over period, the least of all groups up to the root of the hierarchy, of version
// 1 or 2; a fraction where the quota is one. What cannot be read grants everything.
// `root`: where the files lie, "/" outside of tests.
double cpu_quota(const std::string& root = "/");

// The machine of a run in real time, for the result: a reader of times must see on what hosts and
// cores the workers were, and whether they had them for themselves.

// Fills in `cluster`.`machine` of the result where workers are processes (the MPI library, and the
// ranks by host, in the order of ranks), `environment`.`convolution_library` where a GPU of this
// process computes some, the load of the host at the start, and a warning where workers have to take
// turns. Every process may call it, without messages; the record of rank 0 is the one that is
// written. Errors: device, the convolution library is not there.
void describe_machine(const Cluster& cluster, const TrainOptions& options, Record& record);

// The GPU of this process's first worker that has one; -1: none.
int first_gpu(const Cluster& cluster);

}  // namespace hetsgd
