// Detects workers that have to share their cores, or the physical cores of which these are hardware
// threads. Their times are no valid measurement, so the result carries a warning. The run is not
// refused.
//
//   wanted     the cores of each worker's device ("cpu:2": 2; a GPU's host side: 1), and 1 for a
//              rank that runs services
//   available  the cores that the host's processes are bound to, together; on this host no more
//              than its control groups grant
//
// The control groups of other hosts are not known here, so an oversubscribed one may go unnoticed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster.hpp"
#include "training/record.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

struct HostShare {
  std::string host;  // "": this one
  int workers = 0;
  int wanted = 0;        // cores of all workers, and one for a rank of services
  double available = 0;  // cores that the processes may use
  int physical = 0;      // physical cores of which those are hardware threads
  int sharing = 0;       // workers one of whose physical cores another worker or the services use
};
// The warning, in the wording of the result; "" if every worker has its cores to itself.
std::string oversubscription_of(const HostShare& share);

// The warnings of a cluster in real time, host by host; {} for a simulated one, whose clock does
// not depend on cores. Sends no message: the processes exchanged the facts when they joined.
std::vector<std::string> oversubscription_warnings(const Cluster& cluster);

// The load of this host by other programs at the start of a run in real time. Empty if the cluster
// is simulated or the system does not report it. Takes 20 ms.
std::optional<HostLoad> host_load(const Cluster& cluster);
// Adds the load at the end. Returns a warning that calls the times of `what` ("this run") not valid
// if the workers had to share their cores, else "".
std::string finish_host_load(const ProcessPlace& here, HostLoad& load, std::string_view what);

// The number of cores that this process's control group grants (cpu.max, cpu.cfs_quota_us), or
// infinity. It is quota over period, the least of all groups up to the root of the hierarchy,
// version 1 or 2. It may be a fraction. A file that cannot be read grants everything. `root` is the
// root of the file system, "/" outside of tests.
double cpu_quota(const std::string& root = "/");

// Describes the hosts of a run in real time, for the result. A reader of times must see the hosts
// and cores of the workers, and whether they shared them. If workers are processes, it fills in
// `cluster`.`machine`: the MPI library, and the ranks by host. If a GPU of this process computes
// convolutions, it fills in `environment`.`convolution_library`. It notes the load of the host at
// the start, and warns if workers have to share their cores. Every process may call it, without
// messages; only rank 0's record is written. Throws Error(device) if the convolution library is
// missing.
void describe_hosts(const Cluster& cluster, const TrainOptions& options, Record& record);

// The GPU of the first worker of this process that has one; -1: none.
int first_gpu(const Cluster& cluster);

}  // namespace hetsgd
