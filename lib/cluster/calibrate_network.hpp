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

// What is measured: the two calls from which all costs of a NetworkModel follow. An all_reduce
// shows the link between workers, a service call that to the services' host.
enum class NetworkCall {
  all_reduce,  // of `bytes`, over `workers` ranks
  service,     // a call with `bytes` there and `bytes` back, no work in the service
};

// One kind of call in one size, and its mean time.
struct NetworkSample {
  NetworkCall call = NetworkCall::all_reduce;
  std::size_t bytes = 0;
  int workers = 2;
  Seconds time{0};  // of the rank that took longest
};

struct NetworkFit : FitErrors {
  NetworkModel network;
};

// What the model says of an undisturbed call: all_reduce_cost, or
// 2 (server_latency + bytes / min(bytes_per_s, server_bytes_per_s)).
Seconds predicted(const NetworkModel& network, const NetworkSample& sample);

// Latencies and bandwidths >= 0 that minimise the sum of squared relative errors, of the workers'
// link over the samples of all_reduce and of the services' over those of service calls, each on its
// own. Where the services come out faster than the workers' link, predicted() is slower than that
// fit, as it takes the slower of the two. What the samples do not need becomes free
// (kUnlimitedPerSecond). Topology ring, no shared bus; name and source are left to the caller.
// Errors: runtime, if there are fewer than two samples of a kind, all of one size, or a time is not
// above 0.
NetworkFit fit_network_model(std::span<const NetworkSample> samples);

struct NetworkMeasurement {
  std::vector<std::size_t> sizes_bytes;                      // of vectors and payloads
  Seconds point_time{0.2};                                   // per size and kind of call
  std::function<void(const std::string&)> status = nullptr;  // told what is being measured
};

// Runs the calls of each size on the cluster, each after a barrier, and takes the mean time without
// the slowest twentieth (a stalled host). The time of one call is that of the slowest rank, so all
// ranks have the same times. Service calls are made by the last rank alone, as the services run
// beside rank 0; the others wait for it. Every size is a run of its own.
// Under mpi every rank calls this, and has all samples afterwards. At least two workers (checked).
std::vector<NetworkSample> measure_network(const std::string& cluster,
                                           const ClusterOptions& options,
                                           const NetworkMeasurement& measurement);

}  // namespace hetsgd
