// The price of `--record-timeline` for a worker, per call: the same calls with and without a
// record, in CPU time of the process. The difference of `s_per_call` is the price of recording.
//
//   trace_bench --benchmark_repetitions=9 --benchmark_enable_random_interleaving=true \
//     --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cluster/cluster.hpp"
#include "cluster/trace/trace.hpp"
#include "support/plain_cluster.hpp"

namespace hetsgd {
namespace {

// kToFile: as after the bound of memory.
enum Recording { kPlain, kRecorded, kToFile };

ClusterOptions options(int workers) {
  ClusterOptions options = plain_cluster(workers, 1e12, 1e11, 1e10);
  options.host_threads = 1;
  return options;
}

// Runs `work`, which makes `calls` calls, on every worker. The record is freed off the clock.
template <class Work>
void measure(benchmark::State& state, const std::string& cluster_name, int workers, int calls,
             Work work) {
  const auto cluster = make_cluster(cluster_name, options(workers));
  const bool recorded = state.range(0) != kPlain;
  CallMemoryOptions memory;
  if (state.range(0) == kToFile) memory = {.most_bytes = 0, .folder = "."};
  for (auto _ : state) {
    std::optional<Trace> trace(std::in_place, TraceDetail::causes, memory);
    cluster->run([&](Endpoint& endpoint) {
      if (recorded) endpoint.note_calls(*trace);
      work(endpoint);
    });
    state.PauseTiming();
    trace.reset();
    state.ResumeTiming();
  }
  state.counters["s_per_call"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * workers * calls,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

constexpr int kCalls = 200'000;

// Computations of `microseconds` on the host.
void compute(benchmark::State& state, const std::string& cluster) {
  const std::chrono::microseconds length(state.range(1));
  const int calls = length.count() > 0 ? kCalls / 4 : kCalls;
  measure(state, cluster, 1, calls, [=](Endpoint& endpoint) {
    for (int i = 0; i < calls; ++i) {
      endpoint.compute({.operations = 1e6, .bytes = 1e5}, ComputeKind::step, [length] {
        const auto end = std::chrono::steady_clock::now() + length;
        while (length.count() > 0 && std::chrono::steady_clock::now() < end) {
        }
      });
    }
  });
}
void simulated_compute(benchmark::State& state) { compute(state, "sim"); }
void threads_compute(benchmark::State& state) { compute(state, "threads"); }

// Collectives of all workers of the simulated cluster.
void simulated_all_reduce(benchmark::State& state) {
  measure(state, "sim", 2, kCalls / 4, [](Endpoint& endpoint) {
    float sum = 1;
    for (int i = 0; i < kCalls / 4; ++i) {
      endpoint.comm().all_reduce<float>(std::span(&sum, 1), ReduceOp::max);
    }
  });
}

// Messages between two workers of the simulated cluster.
void simulated_messages(benchmark::State& state) {
  measure(state, "sim", 2, kCalls / 4, [](Endpoint& endpoint) {
    Comm& comm = endpoint.comm();
    std::int64_t token = 0;
    for (int i = 0; i < kCalls / 4; ++i) {
      if (comm.rank() == 0) {
        comm.send(1, 0, std::span(&token, 1));
      } else {
        comm.receive<std::int64_t>(0, 0, {&token, 1});
      }
    }
  });
}

void ways(benchmark::internal::Benchmark* bench) {
  bench->ArgName("recorded")->DenseRange(kPlain, kToFile);
  bench->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);
}
void ways_and_lengths(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"recorded", "us"})->ArgsProduct({{kPlain, kRecorded, kToFile}, {0, 20}});
  bench->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(simulated_compute)->Apply(ways_and_lengths);
BENCHMARK(threads_compute)->Apply(ways_and_lengths);
BENCHMARK(simulated_all_reduce)->Apply(ways);
BENCHMARK(simulated_messages)->Apply(ways);

}  // namespace
}  // namespace hetsgd
