// Click-through models on rows of Criteo's shape: 13 dense columns, 26 fields, a table of 4 million
// rows of D = 16, log-uniform (Zipf-like, exponent 1) categories.
//
//   step/MODEL/B/C   a step of the model with its own layers, batch B, on the device cpu:C
//   lookup/B/C       what of it the table needs alone: gather of B samples' rows (C = 17), update
//
// Counters, per second of wall time: samples_per_s; floor_ratio = the time that the step's
// floating-point operations would take at the cores' measured peak, or for lookups their bytes at
// the measured rate of a copy, over the time taken. Bytes of a lookup with D + 1 = 17 numbers and
// rows of 2 lines, a = distinct share: 4 + 2 64 + 4 17 for the gather, 4 17 + 12 + 2 a 128 for the
// update.
//
// scripts/peers/compare_ctr.py runs it beside PyTorch.
#include <cmath>
#include <set>

#include "linalg/embedding_kernels.hpp"
#include "model/registry.hpp"
#include "support.hpp"

namespace hetsgd {
namespace {

constexpr Index kDense = 13, kFields = 26, kCategories = 4'000'000;
constexpr std::size_t kEmbedding = 16, kRows = 1 << 17;

const Dataset& clicks() {
  static const DatasetPtr data = [] {
    DatasetBuilder builder;
    builder.task = Task::binary;
    builder.label_count = 1;
    builder.dense.columns = kDense;
    for (Index f = 0; f <= kFields; ++f) builder.fields.first.push_back(kCategories / kFields * f);
    RandomStream random(1, Purpose::test);
    const double log_size = std::log(static_cast<double>(kCategories / kFields));
    for (std::size_t r = 0; r < kRows; ++r) {
      for (Index k = 0; k < kDense; ++k) {
        builder.dense.value.push_back(static_cast<float>(random.uniform(0, 5)));
      }
      for (Index f = 0; f < kFields; ++f) {
        const auto rank = static_cast<Index>(std::exp(random.uniform() * log_size)) - 1;
        // Popular categories lie all over the table.
        builder.fields.category.push_back(
            builder.fields.first[f] +
            static_cast<Index>(std::uint64_t{rank} * 2654435761U % (kCategories / kFields)));
      }
      if (random.below(4) == 0) builder.targets.index.push_back(0);
      builder.targets.begin.push_back(builder.targets.index.size());
    }
    return std::move(builder).share();
  }();
  return *data;
}

void step(benchmark::State& state, const std::string& name, Precision precision = Precision::fp32) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const auto model = find_model(name).make()->make(DataShape::of(clicks()));
  const auto device = make_cpu_device<float>(static_cast<int>(state.range(1)), precision);
  const auto context = model->make_context(*device);
  Buffer w = bench::initial_on(*device, *model);
  const std::vector<Batch> batches = bench::batches_of(clicks(), size);
  // The first step makes the buffers, and the system makes their pages at the first touch. For 0.3
  // GB of dcn at batch 8192 that takes longer than a step.
  double loss = model->step(*context, batches.back(), 0.01F, w.data());
  std::size_t next = 0;
  for (auto _ : state) {
    loss = model->step(*context, batches[next], 0.01F, w.data());
    next = (next + 1) % batches.size();
  }
  if (!std::isfinite(loss)) state.SkipWithError("the loss is not finite");
  const double samples = static_cast<double>(state.iterations()) * static_cast<double>(size);
  const double operations =
      model->gradient_work(batches[0].shape()).operations / static_cast<double>(size);
  const double peak = static_cast<double>(state.range(1)) * bench::floors().operations_per_s;
  state.counters["samples_per_s"] = {samples, benchmark::Counter::kIsRate};
  state.counters["floor_ratio"] = {operations * samples / peak, benchmark::Counter::kIsRate};
}

double distinct_share(const std::vector<Batch>& batches) {
  std::size_t distinct = 0, lookups = 0;
  for (const Batch& batch : batches) {
    std::set<Index> categories;
    for (const Index row : batch.rows()) {
      for (const Index category : clicks().fields.row(row)) categories.insert(category);
    }
    distinct += categories.size();
    lookups += batch.size() * kFields;
  }
  return static_cast<double>(distinct) / static_cast<double>(lookups);
}

void lookup(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const auto device = make_cpu_device<float>(static_cast<int>(state.range(1)));
  auto& rows = kernels<EmbeddingKernels>(*device);
  const TableShape table{kEmbedding, 1};
  const Dataset& data = clicks();
  Buffer W(*device, std::size_t{kCategories} * table.row());
  device->fill(W.size(), 0.01F, W.data());
  Buffer Y(*device, size * (kDense + kFields * kEmbedding)), z(*device, size);
  const std::vector<Batch> batches = bench::batches_of(clicks(), size);
  std::size_t next = 0;
  for (auto _ : state) {
    const FieldRows<float> X{size,
                             kDense,
                             kFields,
                             kCategories,
                             batches[next].rows().data(),
                             data.dense.value.data(),
                             data.fields.category.data()};
    rows.gather_rows(X, table, W.data(), Y.data(), z.data());
    rows.update_rows(X, table, -0.01F, Y.data(), z.data(), W.data());
    next = (next + 1) % batches.size();
  }
  const double samples = static_cast<double>(state.iterations()) * static_cast<double>(size);
  const double bytes =
      kFields * ((4 + 128 + 4 * 17) + (4 * 17 + 12 + 2 * distinct_share(batches) * 128));
  const double peak = static_cast<double>(state.range(1)) * bench::floors().bytes_per_s;
  state.counters["samples_per_s"] = {samples, benchmark::Counter::kIsRate};
  state.counters["floor_ratio"] = {bytes * samples / peak, benchmark::Counter::kIsRate};
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({{1024, 8192}, {1, 2}})->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(step, wide_deep, "wide_deep")->Apply(sizes);
BENCHMARK_CAPTURE(step, deepfm, "deepfm")->Apply(sizes);
BENCHMARK_CAPTURE(step, dcn, "dcn")->Apply(sizes);
BENCHMARK_CAPTURE(step, wide_deep_bf16, "wide_deep", Precision::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(step, deepfm_bf16, "deepfm", Precision::bf16)->Apply(sizes);
BENCHMARK_CAPTURE(step, dcn_bf16, "dcn", Precision::bf16)->Apply(sizes);
BENCHMARK(lookup)->Apply(sizes);

}  // namespace
}  // namespace hetsgd
