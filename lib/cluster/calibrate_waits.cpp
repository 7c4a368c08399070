#include <time.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <vector>

#include "cluster/calibrate_network.hpp"
#include "cluster/service.hpp"

namespace hetsgd {

namespace {

// Between two wake-ups, so that the waiting thread sleeps and its core rests.
constexpr Seconds kRest{3e-3};
constexpr int kWakeUps = 60;
// So long one rank waits for another. Its polls and those of its control thread have found their
// pace long before.
constexpr Seconds kLongWait{0.3};
constexpr int kTag = 1;

struct Nothing {
  std::int32_t unused = 0;
};

class Bell final : public Service<Nothing, Nothing> {
 public:
  void handle(int, const Nothing&, std::span<const float>, Responder<Nothing> reply) override {
    reply({});
  }
  Work work(const Nothing&, std::size_t) const override { return {}; }
};

// A stalled host makes some far too long.
double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

// Time from notify_all() to the return of the background task that waits.
double wake_time(Endpoint& endpoint) {
  const auto monitor = endpoint.make_monitor();
  int rung = 0, heard = 0;
  Seconds at{0};
  std::vector<double> late;
  endpoint.background_task("sleeper", [&](Endpoint& task) {
    while (heard < kWakeUps) {
      const std::lock_guard guard(*monitor);
      monitor->wait([&] { return rung > heard; }, "the next wake-up");
      late.push_back((task.now() - at).count());
      ++heard;
      monitor->notify_all();
    }
  });
  while (rung < kWakeUps) {
    endpoint.sleep(kRest);
    {
      const std::lock_guard guard(*monitor);
      ++rung;
      at = endpoint.now();
    }
    monitor->notify_all();
    const std::lock_guard guard(*monitor);
    monitor->wait([&] { return heard == rung; }, "the end of the last wake-up");
  }
  return median(std::move(late));
}

// Time by which a service that has rested answers later than one that has just answered.
double service_lateness(Endpoint& endpoint) {
  auto bell = serve<Bell>(endpoint, "bell");
  if (endpoint.rank() != endpoint.size() - 1) return 0;
  std::vector<double> late;
  for (int i = 0; i < kWakeUps; ++i) {
    endpoint.sleep(kRest);
    const Seconds begin = endpoint.now();
    bell.call({});
    const Seconds between = endpoint.now();
    bell.call({});
    late.push_back((2 * between - begin - endpoint.now()).count());
  }
  // Where the request comes between two polls is chance, so the mean counts.
  return std::max(0.0, std::accumulate(late.begin(), late.end(), 0.0) / kWakeUps);
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Share of a core that the last rank takes while it waits for a message of rank 0.
double waiting_share(Endpoint& endpoint) {
  Comm& comm = endpoint.comm();
  const int last = endpoint.size() - 1;
  std::int32_t message = 0;
  if (endpoint.rank() == 0) {
    endpoint.sleep(kLongWait);
    comm.send(last, kTag, std::span(&message, 1));
  }
  if (endpoint.rank() != last) return 0;
  const Seconds begin = endpoint.now();
  const double before = cpu_seconds();
  comm.receive(0, kTag, std::span(&message, 1));
  return (cpu_seconds() - before) / (endpoint.now() - begin).count() / (1 + kControlPolls);
}

// The largest of the values that the ranks have measured.
template <class Measure>
double measured(const std::string& cluster, const ClusterOptions& options, Measure measure) {
  double value = 0;
  make_cluster(cluster, options)->run([&](Endpoint& endpoint) {
    double mine = measure(endpoint);
    endpoint.comm().all_reduce(std::span(&mine, 1), ReduceOp::max);
    if (endpoint.rank() == 0) value = mine;
  });
  return value;
}

}  // namespace

void measure_waits(const std::string& cluster, const ClusterOptions& options,
                   NetworkModel& network) {
  network.wake = Seconds(measured(cluster, options, [](Endpoint& endpoint) {
    return endpoint.rank() == 0 ? wake_time(endpoint) : 0.0;
  }));
  if (!cluster_kind(cluster).join) return;
  // A poll comes on average half of the time between two polls after the request.
  network.poll = Seconds(2 * measured(cluster, options, service_lateness));
  network.poll_core_share = std::clamp(measured(cluster, options, waiting_share), 0.0, 1.0);
}

}  // namespace hetsgd
