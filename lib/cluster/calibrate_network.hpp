// Measures what a cluster's messages cost and fits a network model to it, so that `sim` predicts
// that cluster: `hetsgd calibrate network`.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cluster/calibrate.hpp"
#include "cluster/cluster.hpp"
#include "cluster/profile.hpp"
#include "core/units.hpp"

namespace hetsgd {

// The two calls that are measured. All costs of a NetworkModel follow from them: an all_reduce
// shows the link between workers, a service call the link to the services' host.
enum class NetworkCall {
  all_reduce,  // all_reduce of `bytes` bytes over `workers` ranks
  service,     // a call with `bytes` there and `bytes` back, no work in the service
};

// One kind of call in one size, and its mean time.
struct NetworkSample {
  NetworkCall call = NetworkCall::all_reduce;
  std::size_t bytes = 0;
  int workers = 2;
  Seconds time{0};  // time of the slowest rank
};

struct NetworkFit : FitErrors {
  NetworkModel network;
};

// Time of an undisturbed call according to the model: all_reduce_cost, or
// 2 (server_latency + bytes / min(bytes_per_s, server_bytes_per_s)).
Seconds predicted(const NetworkModel& network, const NetworkSample& sample);

// Fits latencies and bandwidths >= 0 that minimise the sum of squared relative errors. The workers'
// link is fitted to the samples of all_reduce alone, the services' link to the samples of service
// calls alone. If the services' link comes out faster than the workers', predicted() is slower than
// that fit, because it takes the slower of the two. A cost that the samples do not need becomes
// free (kUnlimitedPerSecond). The topology is ring without a shared bus; name and source are left
// to the caller. Throws Error(runtime) if a kind has fewer than two samples or samples of one size
// only, or if a time is not above 0.
NetworkFit fit_network_model(std::span<const NetworkSample> samples);

struct NetworkMeasurement {
  std::vector<std::size_t> sizes_bytes;                      // lengths of vectors and payloads
  Seconds point_time{0.2};                                   // per size and kind of call
  std::function<void(const std::string&)> status = nullptr;  // is told what is being measured
};

// Runs the calls of each size on the cluster, each after a barrier, and takes the mean time without
// the slowest twentieth (a stalled host). The time of one call is that of the slowest rank, so all
// ranks have the same times. Service calls are made by the last rank alone, as the services run
// beside rank 0; the others wait for it. Every size is a run of its own. Under MPI every rank calls
// this, and has all samples afterwards. At least two workers (checked).
std::vector<NetworkSample> measure_network(const std::string& cluster,
                                           const ClusterOptions& options,
                                           const NetworkMeasurement& measurement);

// Measures how the processes of this cluster wait, for `sim --host-cores`: NetworkModel::wake, from
// a monitor's notification to a background task that has slept for 3 ms (the median of 60). Where
// ranks poll for messages (mpi) it measures two more. `poll` is twice the mean delay of a service
// that has rested for 3 ms. poll_core_share is the processor time of a rank that waits for 0.3 s.
// Takes about a second. Under MPI every rank calls this, and rank 0's network is set. Needs a free
// core for each worker: on a busy machine the times come out too long.
void measure_waits(const std::string& cluster, const ClusterOptions& options,
                   NetworkModel& network);

}  // namespace hetsgd
