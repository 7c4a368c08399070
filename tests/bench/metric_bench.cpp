// Area under the ROC curve of N scores on one core, which a measurement of click data computes when
// all rows have been scored. The scores are normal log odds as a model makes them, a quarter
// positive. items_per_second counts scores.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/random.hpp"
#include "model/metric.hpp"

namespace hetsgd {
namespace {

constexpr double kMean = -1.4, kDeviation = 1.5;  // AUC .82, .26 positive

void auc(benchmark::State& state) {
  RandomStream random(1, Purpose::test);
  std::vector<float> scores(static_cast<std::size_t>(state.range(0)));
  std::vector<std::uint8_t> truth;
  for (float& score : scores) {
    const double z = kMean + kDeviation * random.normal();
    score = static_cast<float>(z);
    truth.push_back(random.uniform() * (1 + std::exp(-z)) < 1 ? 1 : 0);
  }
  double area = 0;
  for (auto _ : state) area = *area_under_curve(scores, truth);
  state.SetItemsProcessed(state.range(0) * state.iterations());
  state.counters["auc"] = area;
}
BENCHMARK(auc)->ArgName("scores")->Arg(131'000)->Arg(4'600'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hetsgd
