// Measuring a model beside training it, in one run: 128 hidden units, many labels.
//
//   scoring/L/C  L labels on C cores: rows of the shape of Amazon-670k (76 nonzeros of features
//                that grow with the labels, 5 labels). Training: steps of batches of 256 on the
//                device cpu:C. Scoring: a measurement of the test set by the evaluator with C
//                threads, loss and P@k, as between two mega-batches of a run
//
// Each iteration makes two steps, then measures. Counters, of wall-clock time: train_GFLOP_per_s
// and score_GFLOP_per_s count only the products of the output layer (three in a step, one in a
// score) and divide by the whole time; ratio = scoring / training. train_floor_ratio and
// score_floor_ratio are the time that those products would take at the measured peak of C cores,
// over the time taken. The iteration's time is that of scoring.
#include <cmath>
#include <numeric>

#include "model/mlp.hpp"
#include "support.hpp"
#include "training/evaluation.hpp"

namespace hetsgd {
namespace {

constexpr std::size_t kHidden = 128, kBatch = 256, kSteps = 2, kTestRows = 2048;

void scoring(benchmark::State& state) {
  const auto labels = static_cast<Index>(state.range(0));
  const auto cores = static_cast<int>(state.range(1));
  const DatasetPtr data = bench::synthetic({labels / 5, labels, 76, 5, kTestRows});
  const auto model = make_mlp<float>({data->feature_count, labels}, {.hidden = {kHidden}});
  const auto device = make_cpu_device<float>(cores);
  const auto context = model->make_context(*device);
  Buffer w = bench::initial_on(*device, *model);
  Evaluator evaluator(*model, data, {.rows = kTestRows, .threads = cores});
  std::vector<Index> rows(kBatch);
  double train_s = 0, score_s = 0, loss = 0;
  std::size_t next = 0;
  const auto iterate = [&] {
    const double start = bench::wall_seconds();
    for (std::size_t i = 0; i < kSteps; ++i, next = (next + kBatch) % kTestRows) {
      std::iota(rows.begin(), rows.end(), static_cast<Index>(next));
      loss += model->step(*context, Batch(*data, rows), 0.1F, w.data());
    }
    const double trained = bench::wall_seconds();
    loss += evaluator.measure(w.span()).back().value;
    const double scored = bench::wall_seconds();
    train_s += trained - start;
    score_s += scored - trained;
    return scored - trained;
  };
  iterate();  // scratch grows
  train_s = score_s = 0;
  for (auto _ : state) state.SetIterationTime(iterate());
  if (!std::isfinite(loss)) state.SkipWithError("the loss is not finite");
  const double product = 2.0 * kHidden * static_cast<double>(labels);  // of one sample
  const auto n = static_cast<double>(state.iterations());
  const double train = 3 * product * kSteps * kBatch * n / train_s;
  const double score = product * kTestRows * n / score_s;
  const double peak = cores * bench::floors().operations_per_s;
  state.counters["train_GFLOP_per_s"] = train / 1e9;
  state.counters["score_GFLOP_per_s"] = score / 1e9;
  state.counters["ratio"] = score / train;
  state.counters["train_floor_ratio"] = train / peak;
  state.counters["score_floor_ratio"] = score / peak;
}

BENCHMARK(scoring)
    ->ArgsProduct({{67'009, 201'027, 670'091}, {1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hetsgd
