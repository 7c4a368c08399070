// Communication in the threads cluster: bandwidth of all_reduce, and latencies. `hetsgd bench
// all_reduce` measures the floor of its collectives, too.
//
// algbw and busbw as nccl-tests define them: algbw = n bytes / time of one all_reduce, busbw =
// algbw 2 (p-1) / p.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cluster/cluster.hpp"

namespace {

using namespace hetsgd;

// Operations are timed in groups of this many. The fastest group has the time of an undisturbed
// host.
constexpr std::int64_t kGroup = 8;

// Runs the operation that set_up(node) makes, `batch` times per cluster run, all ranks together;
// the time is rank 0's. Counters: mean and best time of one operation.
template <class SetUp>
void measure(benchmark::State& state, int workers, std::int64_t batch, SetUp set_up) {
  ClusterOptions options;
  options.workers = workers;
  const auto cluster = make_cluster("threads", options);
  double total_s = 0, best_s = std::numeric_limits<double>::infinity();
  while (state.KeepRunningBatch(batch)) {
    double elapsed_s = 0;
    cluster->run([&](Endpoint& endpoint) {
      auto operation = set_up(endpoint);
      for (int i = 0; i < 3; ++i) operation();  // warm: pages, buffers
      endpoint.comm().barrier();
      const Seconds start = endpoint.now();
      for (std::int64_t done = 0; done < batch; done += kGroup) {
        const Seconds group_start = endpoint.now();
        for (std::int64_t i = 0; i < kGroup; ++i) operation();
        const double group_s = (endpoint.now() - group_start).count();
        if (endpoint.rank() == 0) best_s = std::min(best_s, group_s / kGroup);
      }
      endpoint.comm().barrier();
      if (endpoint.rank() == 0) elapsed_s = (endpoint.now() - start).count();
    });
    state.SetIterationTime(elapsed_s);
    total_s += elapsed_s;
  }
  state.counters["mean_us"] = total_s / static_cast<double>(state.iterations()) * 1e6;
  state.counters["best_us"] = best_s * 1e6;
}

std::int64_t batch_for(std::size_t bytes) {
  const auto count = std::clamp<std::size_t>((std::size_t{256} << 20) / (bytes + 65536), 8, 20000);
  return static_cast<std::int64_t>(count) / kGroup * kGroup;
}

void AllReduce(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const int p = static_cast<int>(state.range(1));
  measure(state, p, batch_for(bytes), [&](Endpoint& endpoint) {
    return [&comm = endpoint.comm(), x = std::vector<float>(bytes / sizeof(float))]() mutable {
      comm.all_reduce(std::span(x));
    };
  });
  const double gigabytes_per_s =
      static_cast<double>(bytes) / static_cast<double>(state.counters["best_us"]) * 1e-3;
  state.counters["algbw_GB_per_s"] = gigabytes_per_s;
  state.counters["busbw_GB_per_s"] = gigabytes_per_s * 2 * (p - 1) / p;
}
BENCHMARK(AllReduce)
    ->ArgNames({"bytes", "workers"})
    ->ArgsProduct({benchmark::CreateRange(4 << 10, 64 << 20, 4), {2}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// There and back between two workers.
void RoundTrip(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  measure(state, 2, batch_for(bytes), [&](Endpoint& endpoint) {
    return [&comm = endpoint.comm(), x = std::vector<std::byte>(bytes)]() mutable {
      const int other = 1 - comm.rank();
      if (comm.rank() == 0) comm.send(other, 0, std::span<const std::byte>(x));
      comm.receive(other, 0, std::span(x));
      if (comm.rank() == 1) comm.send(other, 0, std::span<const std::byte>(x));
    };
  });
}
BENCHMARK(RoundTrip)->ArgName("bytes")->Arg(8)->Arg(64 << 10)->Arg(16 << 20)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

void Barrier(benchmark::State& state) {
  measure(state, 2, batch_for(0),
          [](Endpoint& endpoint) { return [&comm = endpoint.comm()] { comm.barrier(); }; });
}
BENCHMARK(Barrier)->UseManualTime()->Unit(benchmark::kMicrosecond);

struct Number {
  int value;
};
class Echo final : public Service<Number, Number> {
 public:
  void handle(int, const Number& number, std::span<const float> payload,
              Responder<Number> reply) override {
    reply(number, payload);
  }
};

// A call of a service that answers at once, with a payload both ways.
void ServiceCall(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  measure(state, 1, batch_for(bytes), [&](Endpoint& endpoint) {
    return [echo = serve<Echo>(endpoint, "echo"), x = std::vector<float>(bytes / 4),
            y = std::vector<float>(bytes / 4)]() mutable {
      benchmark::DoNotOptimize(echo.call({1}, x, y));
    };
  });
}
BENCHMARK(ServiceCall)
    ->ArgName("bytes")
    ->Arg(0)
    ->Arg(64 << 10)
    ->Arg(16 << 20)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
