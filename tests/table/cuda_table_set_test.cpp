// Sharded tables whose rows fit into no GPU.

#include "support/failure.hpp"
#include "support/gpu.hpp"
#include "table/shard.hpp"

namespace hetsgd::test {
namespace {

// 2^31 rows of 256 numbers are 2 TiB.
TEST(CudaTableSet, RowsThatDoNotFitNameOptionBytesAndWhatNeedsLess) {
  const std::vector<Index> first = {0, Index{1} << 31};
  const TablePlan plan{.shape = {256, 0},
                       .placement = Placement(first, 256, 1, {Sharding::Kind::row, 1}, {}),
                       .initial = {{first, {}}, 3, 0.1, 256},
                       .optimizer = {}};
  const Failure failure =
      failure_of([&] { TableSet(plan, std::array{0}, 1e15, {}, std::array{0}); });
  EXPECT_THAT(failure.message, testing::HasSubstr("--tables: found sharded with"));
  EXPECT_THAT(failure.message, testing::HasSubstr("of rows of worker 0 on cuda:0"));
  EXPECT_THAT(failure.hint, testing::HasSubstr("--table-storage host"));
}

}  // namespace
}  // namespace hetsgd::test
