// Samples per second of a model's step, gradient and scores on one core, with 128 hidden units.
//
//   delicious/B  500 features, 983 labels, 18 nonzeros and 19 labels per row, batch B: the real
//                data when HETSGD_DATA_DIR has delicious_train.txt, else rows of the same shape
//   amazon/B     the amazon670k preset at scale 0.1: 13,591 features, 67,009 labels, 76 nonzeros
//
// Counters, per second of CPU time: samples_per_s; GFLOP_per_s of the output layer's products;
// floor_ratio = the time that those products would take at the core's measured peak, over the time
// taken (1 is out of reach: softmax, the sparse layer and memory come on top).
// step_on_cores/delicious/B/C: a step on the device cpu:C; its counters are per second of
// wall-clock time. two_learners/.../B: a step of each of two learners with batches of B, one after
// the other on one core (one_core) and on both (two_cores), or at once on a core each (at_once);
// wall-clock time, too.
//
// Pin it to a core: taskset -c 0 model_bench --benchmark_filter=-cores.
// scripts/peers/compare_speed.py runs it beside PyTorch.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include "data/load.hpp"
#include "linalg/streams.hpp"
#include "model/mlp.hpp"
#include "support.hpp"

namespace hetsgd {
namespace {

DatasetPtr delicious() {
  if (const char* directory = std::getenv("HETSGD_DATA_DIR")) {
    const std::string path = std::string(directory) + "/delicious_train.txt";
    if (std::filesystem::exists(path)) {
      LoadOptions options;
      options.cache = CacheMode::off;
      return load_dataset(path, options).data;
    }
  }
  return bench::synthetic({500, 983, 18, 19, 8192});
}

DatasetPtr data_of(const std::string& name) {
  static std::map<std::string, DatasetPtr> loaded;
  DatasetPtr& data = loaded[name];
  if (!data)
    data = name == "delicious" ? delicious() : bench::synthetic({13591, 67009, 76, 5, 4096});
  return data;
}

// A model with its parameters, and batches to cycle through.
struct Workbench {
  Workbench(const std::string& name, std::size_t batch_size, int cores,
            Precision precision = Precision::fp32)
      : data(data_of(name)),
        model(make_mlp<float>({data->feature_count, data->label_count}, {.hidden = {128}})),
        device(make_cpu_device<float>(cores, precision)),
        context(model->make_context(*device)),
        w(bench::initial_on(*device, *model)),
        batches(bench::batches_of(*data, batch_size)) {}

  DatasetPtr data;
  std::unique_ptr<Model> model;
  std::unique_ptr<Device> device;
  std::unique_ptr<ModelContext> context;
  Buffer w;
  Gradient g;
  Buffer logits;
  std::vector<Batch> batches;
};

// products: how many times 2 H L operations a sample needs for the output layer.
void count(benchmark::State& state, const Workbench& bench, double samples, double products,
           int cores) {
  const double operations =
      products * 2.0 * 128 * static_cast<double>(bench.model->outputs()) * samples;
  state.counters["samples_per_s"] = {samples, benchmark::Counter::kIsRate};
  state.counters["GFLOP_per_s"] = {operations / 1e9, benchmark::Counter::kIsRate};
  const double peak = cores * bench::floors().operations_per_s;
  state.counters["floor_ratio"] = {operations / peak, benchmark::Counter::kIsRate};
  state.counters["floor_samples_per_s"] = peak / (operations / samples);
}

template <class Call>
void measure(benchmark::State& state, const std::string& name, double products, Call&& call,
             int cores = 1, Precision precision = Precision::fp32) {
  const auto batch_size = static_cast<std::size_t>(state.range(0));
  Workbench bench(name, batch_size, cores, precision);
  std::size_t next = 0;
  double loss = 0;
  for (auto _ : state) {
    loss = call(bench, bench.batches[next]);
    next = (next + 1) % bench.batches.size();
  }
  if (!std::isfinite(loss)) state.SkipWithError("the loss is not finite");
  const double samples = static_cast<double>(state.iterations()) * static_cast<double>(batch_size);
  count(state, bench, samples, products, cores);
}

double step_of(Workbench& bench, const Batch& batch) {
  return bench.model->step(*bench.context, batch, 0.1F, bench.w.data());
}

void step(benchmark::State& state, const std::string& name, Precision precision = Precision::fp32) {
  measure(state, name, 3, step_of, 1, precision);
}

void step_on_cores(benchmark::State& state, const std::string& name) {
  measure(state, name, 3, step_of, static_cast<int>(state.range(1)));
}

void two_learners(benchmark::State& state, int cores, bool at_once) {
  const auto batch_size = static_cast<std::size_t>(state.range(0));
  Workbench bench("delicious", batch_size, cores);
  Buffer other(*bench.device, bench.w.size());
  bench.device->copy(other.size(), bench.w.data(), other.data());
  float* const w[] = {bench.w.data(), other.data()};
  const auto streams = bench.device->streams(2);
  std::vector<std::unique_ptr<ModelContext>> contexts;
  for (std::size_t s = 0; s < streams->count(); ++s) {
    contexts.push_back(bench.model->make_context(streams->device(s)));
  }
  std::size_t next = 0;
  double loss[2] = {};
  const auto batch = [&](std::size_t j) -> const Batch& {
    return bench.batches[(next + j) % bench.batches.size()];
  };
  const auto step_at_once = [&](std::size_t j) {
    loss[j] = bench.model->step(*contexts[j], batch(j), 0.1F, w[j]);
  };
  const auto nothing = [](std::size_t) {};
  for (auto _ : state) {
    if (at_once) {
      streams->run(2, step_at_once, nothing);
    } else {
      for (std::size_t j = 0; j < 2; ++j) {
        loss[j] = bench.model->step(*bench.context, batch(j), 0.1F, w[j]);
      }
    }
    next = (next + 2) % bench.batches.size();
  }
  if (!std::isfinite(loss[0] + loss[1])) state.SkipWithError("the loss is not finite");
  const double steps = 2.0 * static_cast<double>(state.iterations());
  count(state, bench, steps * static_cast<double>(batch_size), 3, cores);
}

void gradient(benchmark::State& state, const std::string& name) {
  measure(state, name, 3, [](Workbench& bench, const Batch& batch) {
    if (bench.g.flat.data() == nullptr) bench.g = make_gradient(*bench.model, *bench.device);
    return bench.model->gradient(*bench.context, batch, bench.w.data(), bench.g);
  });
}

void scores(benchmark::State& state, const std::string& name) {
  measure(state, name, 1, [](Workbench& bench, const Batch& batch) {
    bench.logits.reset(*bench.device, batch.size() * bench.model->outputs());
    return bench.model->scores(*bench.context, batch, bench.w.data(), bench.logits.data());
  });
}

BENCHMARK_CAPTURE(step, delicious, "delicious")->Arg(64)->Arg(256);
BENCHMARK_CAPTURE(step, amazon, "amazon")->Arg(256);
BENCHMARK_CAPTURE(step, delicious_bf16, "delicious", Precision::bf16)->Arg(64)->Arg(256);
BENCHMARK_CAPTURE(step, amazon_bf16, "amazon", Precision::bf16)->Arg(256);
BENCHMARK_CAPTURE(step_on_cores, delicious, "delicious")
    ->ArgsProduct({{64, 256}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
void of_learners(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(16)->Arg(64)->Arg(256)->UseRealTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(two_learners, one_core, 1, false)->Apply(of_learners);
BENCHMARK_CAPTURE(two_learners, two_cores, 2, false)->Apply(of_learners);
BENCHMARK_CAPTURE(two_learners, at_once, 2, true)->Apply(of_learners);
BENCHMARK_CAPTURE(gradient, delicious, "delicious")->Arg(64)->Arg(256);
BENCHMARK_CAPTURE(gradient, amazon, "amazon")->Arg(256);
BENCHMARK_CAPTURE(scores, delicious, "delicious")->Arg(256);
BENCHMARK_CAPTURE(scores, amazon, "amazon")->Arg(256);

}  // namespace
}  // namespace hetsgd
