// hetsgd bench on GPUs: every operator of all_reduce is right; a lookup has the same rows as on a
// core, and rates that are numbers. Workers share GPUs, so one is enough.

#include "bench/collective_bench.hpp"
#include "bench/lookup_bench.hpp"
#include "support/gpu.hpp"
#include "support/plain_cluster.hpp"

namespace hetsgd {
namespace {

TEST(CudaCollectiveBench, EveryOperatorIsRight) {
  for (const int workers : {2, 3}) {
    ClusterOptions options = plain_cluster(workers, 1e12, 1e12);
    const auto gpus = static_cast<int>(cuda_platform().gpus.size());
    for (int r = 0; r < workers; ++r) options.devices.push_back("cuda:" + std::to_string(r % gpus));
    const CollectiveBench bench("threads", options, 2, 1);
    const BenchCollective& all_reduce = bench_collectives().front();
    for (const BenchOperator& op : all_reduce.operators) {
      if (op.place == BenchPlace::host || op.place == BenchPlace::mpi) continue;
      if (op.method == AllReduce::mpi) continue;  // needs ranks
      if (op.method == AllReduce::nccl && gpus < workers) continue;
      SCOPED_TRACE(op.name);
      const BenchTimes times = bench.measure(all_reduce, op, 10'001, true);
      EXPECT_EQ(times.wrong, 0U);
      ASSERT_EQ(times.time_s.size(), 2U);
      EXPECT_GT(times.time_s.front(), 0);
    }
    for (const double time_s : bench.sendrecv(10'000).time_s) EXPECT_GT(time_s, 0);
  }
}

TEST(CudaLookupBench, HasTheRowsOfACoreAndRates) {
  LookupBenchOptions options{.rows = 2600, .iterations = 2, .warmup = 1};
  const LookupTimes core = LookupBench(options).measure(64);
  options.gpu = 0;
  const LookupBench bench(options);
  const LookupTimes times = bench.measure(64);
  EXPECT_EQ(times.lookups, core.lookups);
  EXPECT_DOUBLE_EQ(times.entries, core.entries);
  EXPECT_EQ(times.update.size(), 2U);
  EXPECT_GT(bench.memory_bytes_per_s(), 0);
  // Rows of 16 numbers lie in two sectors, and are written or read once more without gaps.
  EXPECT_DOUBLE_EQ(bench.gather_bytes_per_row(), 64 + 64);
  EXPECT_DOUBLE_EQ(bench.update_bytes_per_row(), 2 * 64 + 64);
}

}  // namespace
}  // namespace hetsgd
