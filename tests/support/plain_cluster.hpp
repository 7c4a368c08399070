// A cluster of round numbers, for times worked out by hand.
#pragma once

#include "cluster/cluster.hpp"

namespace hetsgd {

// `workers` devices of these rates; links of 10 us, the services' one too.
inline ClusterOptions plain_cluster(int workers, double operations_per_s = 1e9,
                                    double bytes_per_s = 1e9, double link_bytes_per_s = 1e9) {
  ClusterOptions options;
  options.workers = workers;
  options.profiles[0].operations_per_s = operations_per_s;
  options.profiles[0].bytes_per_s = bytes_per_s;
  options.network.latency = Seconds(1e-5);
  options.network.bytes_per_s = link_bytes_per_s;
  options.network.server_latency = Seconds(1e-5);
  options.network.server_bytes_per_s = link_bytes_per_s;
  return options;
}

}  // namespace hetsgd
