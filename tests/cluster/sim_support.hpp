// A machine that the tests of `sim` share: its parameters are powers of two, so that virtual times
// are exact and can be compared with ==.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "core/error.hpp"

namespace hetsgd::sim {

// 1/2 s per launch, 8 operations/s, 16 bytes/s; links: 1/4 s and 64 bytes/s; services: 1/8 s and 32
// bytes/s.
inline ClusterOptions slow_machine(int workers) {
  ClusterOptions options;
  options.workers = workers;
  options.host_threads = 2;
  options.profiles[0].name = "slow";
  options.profiles[0].launch_overhead_s = 0.5;
  options.profiles[0].operations_per_s = 8;
  options.profiles[0].bytes_per_s = 16;
  options.network.latency = Seconds(0.25);
  options.network.bytes_per_s = 64;
  options.network.server_latency = Seconds(0.125);
  options.network.server_bytes_per_s = 32;
  return options;
}

inline ClusterReport run(const ClusterOptions& options,
                         const std::function<void(Endpoint&)>& worker) {
  return make_cluster("sim", options)->run(worker);
}

template <class ErrorType>
std::string failure_of(const ClusterOptions& options,
                       const std::function<void(Endpoint&)>& worker) {
  try {
    run(options, worker);
  } catch (const ErrorType& error) {
    return error.what();
  }
  ADD_FAILURE() << "the run did not fail";
  return "";
}

inline double now(Endpoint& endpoint) { return endpoint.now().count(); }

// Takes `seconds` on the slow machine at speed 1, launches aside.
inline Work work_of(double seconds) {
  return {.operations = 8 * seconds, .bytes = 0, .launches = 0};
}
inline constexpr auto nothing = [] {};

inline const TimeBreakdown& breakdown(const ClusterReport& report, int rank) {
  return report.workers[static_cast<std::size_t>(rank)].breakdown;
}

inline constexpr auto kParameters = static_cast<std::size_t>(Traffic::parameters);
inline constexpr auto kGradients = static_cast<std::size_t>(Traffic::gradients);
inline constexpr auto kControl = static_cast<std::size_t>(Traffic::control);

}  // namespace hetsgd::sim
