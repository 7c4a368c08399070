// Events per second of the `sim` cluster: the cost of a simulated worker without its mathematics.
#include <benchmark/benchmark.h>

#include "cluster/cluster.hpp"
#include "cluster/sim/engine.hpp"
#include "support/plain_cluster.hpp"

namespace hetsgd {
namespace {

ClusterOptions options(int workers) {
  ClusterOptions options = plain_cluster(workers, 1e12, 1e11, 1e10);
  options.host_threads = 1;
  return options;
}

void report(benchmark::State& state, std::uint64_t events) {
  state.counters["events_per_s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["s_per_event"] = benchmark::Counter(
      static_cast<double>(events), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Every process sleeps again and again; their times interleave, so that each event switches to
// another fiber.
void sleep_ping_pong(benchmark::State& state) {
  const int workers = static_cast<int>(state.range(0));
  const int rounds = 4'000'000 / workers;
  const auto cluster = make_cluster("sim", options(workers));
  std::uint64_t events = 0;
  for (auto _ : state) {
    events += cluster
                  ->run([&](Endpoint& endpoint) {
                    const Seconds period(1.0 + 1e-6 * endpoint.rank());
                    for (int i = 0; i < rounds; ++i) endpoint.sleep(period);
                  })
                  .events;
  }
  report(state, events);
}
BENCHMARK(sleep_ping_pong)->Arg(10)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);

// A ring of small messages: four events per message (two ends of the wire, two wake-ups).
void message_ring(benchmark::State& state) {
  const int workers = static_cast<int>(state.range(0));
  const int rounds = 1'000'000 / workers;
  const auto cluster = make_cluster("sim", options(workers));
  std::uint64_t events = 0;
  for (auto _ : state) {
    events += cluster
                  ->run([&](Endpoint& endpoint) {
                    Comm& comm = endpoint.comm();
                    const int to = (comm.rank() + 1) % comm.size();
                    const int from = (comm.rank() + comm.size() - 1) % comm.size();
                    std::int64_t token = endpoint.rank();
                    for (int i = 0; i < rounds; ++i) {
                      comm.send(to, 0, std::span(&token, 1));
                      comm.receive<std::int64_t>(from, 0, {&token, 1});
                    }
                  })
                  .events;
  }
  report(state, events);
}
BENCHMARK(message_ring)->Arg(10)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);

// Empty computations, with and without host threads to hand them to.
void empty_compute(benchmark::State& state) {
  ClusterOptions with_threads = options(static_cast<int>(state.range(0)));
  with_threads.host_threads = static_cast<int>(state.range(1));
  const int rounds = 200'000 / with_threads.workers;
  const auto cluster = make_cluster("sim", with_threads);
  std::uint64_t events = 0;
  for (auto _ : state) {
    events += cluster
                  ->run([&](Endpoint& endpoint) {
                    for (int i = 0; i < rounds; ++i) {
                      endpoint.compute({.operations = 1e6}, ComputeKind::step, [] {});
                    }
                  })
                  .events;
  }
  report(state, events);
}
BENCHMARK(empty_compute)->Args({100, 1})->Args({100, 2})->Unit(benchmark::kMillisecond);

// One all_reduce of a model of Adaptive SGD's size over many workers: wall-clock seconds and bytes.
void all_reduce(benchmark::State& state) {
  const int workers = static_cast<int>(state.range(0));
  const auto n = static_cast<std::size_t>(state.range(1));
  std::vector<std::vector<float>> data(static_cast<std::size_t>(workers),
                                       std::vector<float>(n, 1.0F));
  ClusterOptions all_cores = options(workers);
  all_cores.host_threads = 0;
  const auto cluster = make_cluster("sim", all_cores);
  for (auto _ : state) {
    cluster->run([&](Endpoint& endpoint) {
      endpoint.comm().all_reduce<float>(data[static_cast<std::size_t>(endpoint.rank())],
                                        ReduceOp::max);
    });
  }
  // Each number is read once and written once.
  state.SetBytesProcessed(state.iterations() * workers * static_cast<std::int64_t>(n) * 8);
}
BENCHMARK(all_reduce)->Args({4, 190'000})->Args({1000, 190'000})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hetsgd
