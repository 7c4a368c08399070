// hetsgd bench lookup on a GPU: the same rows as on a core, and rates that are numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "support/gpu.hpp"
#include "table/lookup_bench.hpp"

namespace hetsgd::test {
namespace {

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
}  // namespace hetsgd::test

int main(int argc, char** argv) { return hetsgd::test::run_gpu_tests(argc, argv); }
