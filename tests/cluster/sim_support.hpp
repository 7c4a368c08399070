// A machine that the tests of `sim` share: its parameters are powers of two, so that virtual times
// are exact and can be compared with ==.
#pragma once

#include "cluster/conformance.hpp"

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
  return conformance::failure_of<ErrorType>("sim", options, worker);
}

inline double now(Endpoint& endpoint) { return endpoint.now().count(); }

// Takes `seconds` on the slow machine at speed 1, launches aside.
inline Work work_of(double seconds) {
  return {.operations = 8 * seconds, .bytes = 0, .launches = 0};
}
inline constexpr auto nothing = [] {};

// An all_reduce that takes `seconds` between two workers without latencies, alone on its link.
inline void all_reduce(Comm& comm, double seconds) {
  std::vector<float> v(static_cast<std::size_t>(seconds * 16));
  comm.all_reduce(std::span(v));
}

// Such an all_reduce of these workers, which begins `at`.
struct Meeting {
  std::vector<int> workers;
  double at, seconds;
};

// When each of them ends. All are in groups of their own, each member in a background task.
inline std::vector<double> ends(const ClusterOptions& options,
                                const std::vector<Meeting>& meetings) {
  std::vector<double> end(meetings.size());
  run(options, [&](Endpoint& endpoint) {
    for (std::size_t i = 0; i < meetings.size(); ++i) {
      const bool mine = std::ranges::count(meetings[i].workers, endpoint.rank()) > 0;
      const std::shared_ptr<Comm> comm = endpoint.comm().split(mine ? 0 : -1, endpoint.rank());
      if (!mine) continue;
      endpoint.background_task("meeting", [&, comm, i](Endpoint& self) {
        self.sleep(Seconds(100 + meetings[i].at) - self.now());
        all_reduce(*comm, meetings[i].seconds);
        end[i] = now(self) - 100;
      });
    }
  });
  return end;
}

// Sends number and payload back, at no cost on the host.
struct Number {
  std::int32_t number = 0;
};
class Echo final : public Service<Number, Number> {
 public:
  void handle(int, const Number& number, std::span<const float> x,
              Responder<Number> reply) override {
    reply(number, x);
  }
  Work work(const Number&, std::size_t) const override {
    return {.operations = 0, .bytes = 0, .launches = 0};
  }
};

inline const TimeBreakdown& breakdown(const ClusterReport& report, int rank) {
  return report.workers[static_cast<std::size_t>(rank)].breakdown;
}

inline constexpr auto kParameters = static_cast<std::size_t>(Traffic::parameters);
inline constexpr auto kGradients = static_cast<std::size_t>(Traffic::gradients);
inline constexpr auto kControl = static_cast<std::size_t>(Traffic::control);

}  // namespace hetsgd::sim
