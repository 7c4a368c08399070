// Helpers that the benchmarks share: clocks, data, models on a device, and the floors. A floor is
// the best that this machine can do, measured in the same run, with which the results are compared.
#pragma once

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/random.hpp"
#include "data/batch.hpp"
#include "model/model.hpp"

namespace hetsgd::bench {

inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Time on the core, as Google Benchmark's CPU time, without the time of other processes.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Best rate of one core's float FMA units: independent sums in registers, no memory. Operations per
// second; the best of several runs, as noise only ever slows it down.
double peak_operations_per_s();

// Best rate of one core over arrays larger than its own caches: bytes read plus written by a copy.
inline double memory_bytes_per_s() {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double start = cpu_seconds();
    std::memcpy(to.data(), from.data(), kBytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    best = std::max(best, 2.0 * kBytes / (cpu_seconds() - start));
  }
  return best;
}

struct Floors {
  double operations_per_s = peak_operations_per_s();
  double bytes_per_s = memory_bytes_per_s();
};

// Measured once per process, at first use.
inline const Floors& floors() {
  static const Floors measured;
  return measured;
}

// Counters per second of an iteration's work: GFLOP_per_s, GB_per_s, and floor_ratio = floor time /
// time taken (1 is the floor), where the floor is the larger of the times of both.
inline void count_work(benchmark::State& state, double operations, double bytes, int cores = 1) {
  using benchmark::Counter;
  const auto n = static_cast<double>(state.iterations());
  const double floor =
      std::max(operations / floors().operations_per_s, bytes / floors().bytes_per_s);
  state.counters["GFLOP_per_s"] = {n * operations / 1e9, Counter::kIsRate};
  if (bytes > 0) state.counters["GB_per_s"] = {n * bytes / 1e9, Counter::kIsRate};
  state.counters["floor_ratio"] = {n * floor / cores, Counter::kIsRate};
}

inline std::vector<float> random_floats(std::size_t n, double most = 0.1) {
  RandomStream random(n, Purpose::test);
  std::vector<float> v(n);
  for (float& x : v) x = static_cast<float>(random.uniform(-most, most));
  return v;
}

// The initial parameters in the device's memory.
inline Buffer initial_on(Device& device, const Model& model) {
  const auto initial = initial_parameters<float>(model.layout(), 1);
  Buffer w(device, initial.size());
  device.upload(w.data(), initial.data(), initial.size() * sizeof(float));
  return w;
}

// The first rows, cut into at most 64 batches of this size.
inline std::vector<Batch> batches_of(const Dataset& data, std::size_t size, std::size_t most = 64) {
  std::vector<Batch> batches;
  for (std::size_t b = 0; b < std::min<std::size_t>(most, data.rows() / size); ++b) {
    std::vector<Index> rows(size);
    std::iota(rows.begin(), rows.end(), static_cast<Index>(b * size));
    batches.emplace_back(data, std::move(rows));
  }
  return batches;
}

// --- data sets of a given shape ------------------------------------------------------------------

struct RowShape {
  Index features, labels;
  std::size_t nonzeros, labels_per_row, rows;
};

// Rows with log-uniform (Zipf-like, exponent 1) features and uniform labels.
inline DatasetPtr synthetic(const RowShape& shape) {
  DatasetBuilder data;
  data.name = "synthetic";
  data.feature_count = shape.features;
  data.label_count = shape.labels;
  RandomStream random(1, Purpose::test);
  const auto draw = [](std::size_t count, auto&& next, std::vector<Index>& to) {
    std::vector<Index> chosen;
    while (chosen.size() < count) {
      const Index i = next();
      if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) chosen.push_back(i);
    }
    std::sort(chosen.begin(), chosen.end());
    to.insert(to.end(), chosen.begin(), chosen.end());
  };
  const double log_features = std::log(static_cast<double>(shape.features));
  for (std::size_t r = 0; r < shape.rows; ++r) {
    draw(
        shape.nonzeros,
        [&] {
          const auto i = static_cast<Index>(std::exp(random.uniform() * log_features)) - 1;
          return std::min(i, shape.features - 1);
        },
        data.sparse.index);
    draw(
        shape.labels_per_row, [&] { return static_cast<Index>(random.below(shape.labels)); },
        data.targets.index);
    data.sparse.begin.push_back(data.sparse.index.size());
    data.targets.begin.push_back(data.targets.index.size());
  }
  for (std::size_t i = 0; i < data.sparse.index.size(); ++i) {
    data.sparse.value.push_back(static_cast<float>(random.uniform(0.1, 1.0)));
  }
  return std::move(data).share();
}

}  // namespace hetsgd::bench
