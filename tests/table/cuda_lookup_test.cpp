// hetsgd bench lookup on a GPU: the same rows as on a core, and rates that are numbers; rows that no
// GPU can hold.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/error.hpp"
#include "support/gpu.hpp"
#include "table/lookup_bench.hpp"
#include "table/shard.hpp"

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

// 2^31 rows of 256 numbers are 2 TiB.
TEST(CudaTableSet, RowsThatDoNotFitNameOptionBytesAndWhatNeedsLess) {
  const std::vector<Index> first = {0, Index{1} << 31};
  const TablePlan plan{.shape = {256, 0},
                       .placement = Placement(first, 256, 1, {Sharding::Kind::row, 1}, {}),
                       .initial = {{first, {}}, 3, 0.1, 256},
                       .optimizer = {}};
  try {
    TableSet(plan, std::array{0}, 1e15, {}, std::array{0});
    FAIL() << "they fit";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("--tables: found sharded, by which"), std::string::npos) << text;
    EXPECT_NE(text.find("of the rows of worker 0 lie on cuda:0"), std::string::npos) << text;
    EXPECT_NE(error.hint().find("--table-storage host"), std::string::npos) << error.hint();
  }
}

}  // namespace
}  // namespace hetsgd::test
