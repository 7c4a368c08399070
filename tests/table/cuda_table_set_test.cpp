// Sharded tables whose rows fit into no GPU.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/error.hpp"
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
  try {
    TableSet(plan, std::array{0}, 1e15, {}, std::array{0});
    FAIL() << "they fit";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("--tables: found sharded with"), std::string::npos) << text;
    EXPECT_NE(text.find("of rows of worker 0 on cuda:0"), std::string::npos) << text;
    EXPECT_NE(error.hint().find("--table-storage host"), std::string::npos) << error.hint();
  }
}

}  // namespace
}  // namespace hetsgd::test
