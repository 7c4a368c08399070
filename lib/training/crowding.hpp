// Workers that have to take turns on their cores: their times are no measurement, and the result
// says so.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster.hpp"

namespace hetsgd {

struct HostShare {
  std::string host;  // "": this one
  int workers = 0;
  int wanted = 0;        // cores of all workers, and one for a rank of services
  double available = 0;  // that the processes may use
};
// The warning; "": everybody has its cores.
std::string crowding_of(const HostShare& share);

// For a cluster in real time ("threads", "mpi"), host by host; {} for a simulated one.
std::vector<std::string> crowding_warnings(const Cluster& cluster);

// So many cores the control group of this process gives it (cpu.max, cpu.cfs_quota_us), or infinity.
// `root`: where the files lie, "/" outside of tests.
double cpu_quota(const std::string& root = "/");

}  // namespace hetsgd
