// The hash tables of slide, on C cores: N rows of 128 numbers, 50 tables of 6 codes of 8 numbers,
// so 300 codes a row.
//
//   hash_rows/N      the buckets of N rows, one core: rows/s
//   label_tables/N/C codes, a counting sort per table, and the cut of full buckets: entries/s,
//                    which are N times the tables. entries_per_s_sorted leaves the codes' time, as
//                    hash_rows would take it on C cores, out
#include "data/huge_pages.hpp"
#include "linalg/device.hpp"
#include "model/labels/label_tables.hpp"
#include "support.hpp"

namespace hetsgd {
namespace {

constexpr std::size_t kInputs = 128;
constexpr std::uint32_t kBucket = 128;

std::vector<float> random_rows(std::size_t rows) {
  const std::vector<float> random = bench::random_floats(rows * kInputs, 1);
  std::vector<float> W;
  resize_on_huge_pages(W, random.size());  // as the model and the tables lie
  std::ranges::copy(random, W.begin());
  return W;
}

void hash_rows(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const std::vector<float> W = random_rows(rows);
  const LabelHash hash({}, kInputs, 1, 0);
  std::vector<std::uint32_t> bucket;
  resize_on_huge_pages(bucket, rows * hash.options().tables);
  for (auto _ : state) {
    hash.rows(rows, W.data(), bucket.data(), 1, rows);
    benchmark::DoNotOptimize(bucket.data());
  }
  const auto all = static_cast<double>(rows) * static_cast<double>(state.iterations());
  state.counters["rows/s"] = benchmark::Counter(all, benchmark::Counter::kIsRate);
}
BENCHMARK(hash_rows)->Arg(4096)->Arg(67009)->Unit(benchmark::kMillisecond);

void label_tables(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto cores = static_cast<int>(state.range(1));
  const std::vector<float> W = random_rows(rows);
  const auto device = make_cpu_device<float>(cores);
  const LabelHash hash({}, kInputs, 1, 0);
  std::vector<std::uint32_t> bucket;
  resize_on_huge_pages(bucket, rows * hash.options().tables);
  double codes_s = 0, tables_s = 0;
  std::uint32_t rehash = 0;
  for (auto _ : state) {
    const double start = bench::wall_seconds();
    hash.rows(rows, W.data(), bucket.data(), 1, rows);
    const double hashed = bench::wall_seconds();
    const LabelTables tables(hash, rows, W.data(), kBucket, 1, rehash++,
                             kernels<BasicHostCores<float>>(*device));
    benchmark::DoNotOptimize(tables.bucket(0, 0).data());
    codes_s += (hashed - start) / cores;
    tables_s += bench::wall_seconds() - hashed;
    state.SetIterationTime(bench::wall_seconds() - hashed);
  }
  const double entries =
      static_cast<double>(rows * hash.options().tables) * static_cast<double>(state.iterations());
  state.counters["entries_per_s"] = entries / tables_s;
  state.counters["entries_per_s_sorted"] = entries / std::max(tables_s - codes_s, 1e-9);
}
BENCHMARK(label_tables)
    ->ArgsProduct({{67009, 670091}, {1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hetsgd
