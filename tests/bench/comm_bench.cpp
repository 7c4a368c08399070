// Communication in the threads cluster: bandwidth of all_reduce, and latencies. `hetsgd bench
// all_reduce` measures the floor of its collectives, too.
//
// algbw and busbw as nccl-tests define them: algbw = n bytes / time of one all_reduce, busbw =
// algbw 2 (p-1) / p.
//
// TrainingStep: the gradient of a batch of 64 rows of Delicious' shape, computed through the
// endpoint on cpu:CORES, and the all_reduce of its 0.8 MB. Lookup: what a lookup in sharded tables
// exchanges, ids out and rows back.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cluster/cluster.hpp"
#include "model/mlp.hpp"
#include "support.hpp"

namespace {

using namespace hetsgd;

// Operations are timed in groups of this many. The fastest group has the time of an undisturbed
// host.
constexpr std::int64_t kGroup = 8;

// Runs the operation that set_up(node) makes, `batch` times per cluster run, all ranks together;
// the time is rank 0's. Counters: mean and best time of one operation.
template <class SetUp>
void measure(benchmark::State& state, int workers, std::int64_t batch, SetUp set_up,
             std::vector<std::string> devices = {}) {
  ClusterOptions options;
  options.workers = workers;
  options.devices = std::move(devices);
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
    ->ArgsProduct({benchmark::CreateRange(1 << 10, 64 << 20, 4), {2}})
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

void Lookup(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));  // to each worker
  constexpr std::size_t kElements = 17;                        // of a row
  measure(state, 2, batch_for(rows * kElements * 4), [&](Endpoint& endpoint) {
    const std::vector<std::size_t> ids(2, rows), elements(2, rows * kElements);
    return [&comm = endpoint.comm(), ids, elements, asked = std::vector<std::uint32_t>(2 * rows),
            owned = std::vector<std::uint32_t>(2 * rows),
            sent = std::vector<float>(2 * rows * kElements),
            received = std::vector<float>(2 * rows * kElements)]() mutable {
      comm.all_to_all<std::uint32_t>(asked, ids, owned, ids);
      comm.all_to_all<float>(sent, elements, received, elements);
    };
  });
}
BENCHMARK(Lookup)->ArgName("rows")->Arg(64)->Arg(4096)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

void TrainingStep(benchmark::State& state) {
  const int cores = static_cast<int>(state.range(0)), workers = 2 / cores;
  const DatasetPtr data = bench::synthetic({500, 983, 18, 19, 8192});
  const auto model = make_mlp<float>({data->feature_count, data->label_count}, {.hidden = {128}});
  measure(
      state, workers, 400,
      [&](Endpoint& endpoint) {
        const std::shared_ptr context = model->make_context(endpoint.device());
        const auto w = std::make_shared<Buffer>(bench::initial_on(endpoint.device(), *model));
        const auto g = std::make_shared<Gradient>(make_gradient(*model, endpoint.device()));
        return [&, context, w, g, batches = bench::batches_of(*data, 64),
                next = std::size_t{0}]() mutable {
          const Batch& batch = batches[next++ % batches.size()];
          endpoint.compute(model->gradient_work(batch.shape()), ComputeKind::step,
                           [&] { model->gradient(*context, batch, w->data(), *g); });
          endpoint.comm().all_reduce(std::span(g->flat.data(), g->flat.size()));
          clear_rows(*model, endpoint.device(), *g);
        };
      },
      std::vector<std::string>(static_cast<std::size_t>(workers), "cpu:" + std::to_string(cores)));
}
BENCHMARK(TrainingStep)
    ->ArgName("cores")
    ->Arg(1)
    ->Arg(2)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

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
