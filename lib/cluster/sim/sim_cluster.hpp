// The `sim` cluster: workers are fibers, time is virtual, the mathematics runs for real on all
// cores.
//
// Same options and seed give the same bytes of results, whatever the host's load and number of
// threads. Limits: fibers have stacks of 256 KiB; what needs more belongs into compute or a pause,
// which run on threads' stacks (compute_cancellable may run its function on the fiber's). Devices
// live as long as the cluster.
#pragma once

#include <memory>

#include "cluster/cluster.hpp"

namespace hetsgd {

// The scenario is shared, the other options are copied. Errors: usage, for speeds and scales that
// are not above 0; check failure, for a profile or a network without rates.
std::unique_ptr<Cluster> make_sim_cluster(const ClusterOptions& options);

}  // namespace hetsgd
