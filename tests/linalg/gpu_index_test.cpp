// The index arithmetic of the CUDA kernels on the host, at sizes that no test of kernels has.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "linalg/cuda/fused_plan.hpp"
#include "linalg/cuda/index.hpp"
#include "linalg/cuda/tensor_core.cuh"

namespace hetsgd::test {
namespace {

using namespace cuda;

constexpr std::size_t kIndexSizes[] = {1, 2, 31, 32, 33, 255, 256, 257, 983, 4096, 4097, 100'000};

TEST(CudaIndex, GridsCoverAllTasksAndEmptyOnesHaveNoBlock) {
  EXPECT_EQ(blocks_for(0, kThreads), 0U);
  for (const std::size_t n : kIndexSizes) {
    EXPECT_GE(blocks_for(n, kThreads) * kThreads, n);
    EXPECT_LT((blocks_for(n, kThreads) - 1) * kThreads, n);
  }
  // 670,091 labels x 1,024 rows need more blocks than a launch gets; nothing wraps.
  constexpr std::size_t large = std::size_t{670'091} * 1024;
  EXPECT_EQ(blocks_for(large, kThreads), kMostBlocks);
  EXPECT_EQ(ceil_divide(std::numeric_limits<std::size_t>::max(), 2), std::size_t{1} << 63);
  EXPECT_EQ(round_up(0, 128), 0U);
  EXPECT_EQ(round_up(129, 128), 256U);
}

TEST(CudaIndex, RowGroupsCoverAllRowsAndAreNotTooSmall) {
  EXPECT_EQ(row_groups(0, 100), 0U);
  for (const std::size_t rows : kIndexSizes) {
    for (const std::size_t columns : kIndexSizes) {
      const std::size_t groups = row_groups(rows, columns);
      ASSERT_GE(groups, 1U);
      std::size_t next = 0;
      for (std::size_t g = 0; g < groups; ++g) {
        const Range range = group_of(rows, groups, g);
        ASSERT_EQ(range.begin, next);
        ASSERT_GE(range.size(), std::min(rows, kGroupRows / 2));
        next = range.end;
      }
      EXPECT_EQ(next, rows);
      EXPECT_LE(groups * ceil_divide(columns, kThreads), kEnoughBlocks + kThreads * 2);
    }
  }
}

TEST(CudaIndex, SoftmaxKernelsHaveWorkForAllOfAGpu) {
  for (const std::size_t rows : {1UL, 63UL, 256UL, 1024UL}) {
    for (const std::size_t columns : {1UL, 983UL, 4097UL, 670'091UL}) {
      const std::size_t at_once = statistics_rows(rows, columns);
      const std::size_t groups = gradient_groups(rows, columns);
      ASSERT_GE(at_once, 1U);
      ASSERT_GE(groups, 1U);
      const std::size_t most = rows * ceil_divide(columns, kSegment);
      EXPECT_GE(ceil_divide(most, at_once), std::min(most, kEnoughBlocks));
      EXPECT_GE(rows / groups, std::min<std::size_t>(rows, 15));  // else partial sums cost more
    }
  }
  EXPECT_EQ(gradient_groups(0, 100), 0U);
}

TEST(CudaIndex, PartialSumsAreBoundedByTheirRoom) {
  EXPECT_EQ(partial_sums(0), 0U);
  EXPECT_EQ(partial_sums(1), 1U);
  EXPECT_EQ(partial_sums(std::size_t{1} << 40), kMostPartials);
}

TEST(CudaIndex, KeysTellAllColumnsApart) {
  for (const std::size_t columns : {1UL, 2UL, 3UL, 135'909UL, (1UL << 31) + 1, 1UL << 32}) {
    const int bits = key_bits(columns);
    EXPECT_GE(bits, 1);
    EXPECT_LE(bits, 32);
    EXPECT_EQ((columns - 1) >> bits, 0U) << columns;
    if (bits > 1) {
      EXPECT_NE((columns - 1) >> (bits - 1), 0U) << columns;
    }
  }
}

void check_plan(std::size_t rows, std::size_t outputs, std::size_t bytes, std::size_t budget,
                std::size_t block_bytes) {
  SCOPED_TRACE(::testing::Message()
               << rows << " x " << outputs << ", budget " << budget << ", block " << block_bytes);
  const LayerPlan plan = plan_layer(rows, outputs, bytes, budget, block_bytes);
  // Blocks do not depend on the budget, and are as large as they were meant to be.
  EXPECT_EQ(plan.block, plan_layer(rows, outputs, bytes, 0, block_bytes).block);
  const std::size_t segment = kSegment * rows * bytes;
  EXPECT_LE(block_stride(plan.block) * rows * bytes, std::max(block_bytes + segment, segment));
  std::size_t next = 0, parts = 0;
  for (std::size_t b = 0; b < plan.blocks; ++b) {
    const Range labels = block_labels(plan, outputs, b);
    ASSERT_EQ(labels.begin, next);
    ASSERT_GT(labels.size(), 0U);
    ASSERT_EQ(labels.begin % kPart, 0U);
    ASSERT_EQ(labels.begin / kPart, parts);
    // Kept blocks have room of their own; the others share what lies behind it.
    const std::size_t at = block_offset(plan, rows, b);
    ASSERT_GE(block_stride(labels.size()), labels.size());
    ASSERT_LE(at + block_stride(labels.size()) * rows, plan.numbers);
    if (b < plan.kept) {
      ASSERT_EQ(at, labels.begin * rows);
    } else {
      ASSERT_EQ(at, plan.kept * plan.block * rows);
    }
    parts += ceil_divide(labels.size(), kPart);
    next = labels.end;
  }
  EXPECT_EQ(next, outputs);
  EXPECT_EQ(parts, plan.parts);
  const std::size_t least = block_stride(plan.block) * rows * bytes;  // one block there must be
  EXPECT_LE(plan.numbers * bytes, std::max(budget, least));
}

TEST(CudaIndex, ProductsOfManyColumnsAreAligned) {
  for (const std::size_t columns : {1UL, 983UL, 4096UL, 4097UL, 96'651UL, 670'091UL}) {
    const std::size_t main = aligned_columns(columns);
    EXPECT_LE(main, columns);
    EXPECT_LT(columns - main, 64U);
    EXPECT_TRUE(main == columns || main % 64 == 0);
    EXPECT_TRUE(columns < 4096 || main % 64 == 0);
  }
}

// A tile's words all have places of their own, and pieces of 16 bytes stay together.
TEST(CudaIndex, SwizzledTilesHaveAPlaceForEachWord) {
  constexpr unsigned rows = 96, words = kHalfRowBytes / 4;
  std::set<unsigned> places;
  for (unsigned row = 0; row < rows; ++row) {
    for (unsigned word = 0; word < words; ++word) {
      const unsigned place = swizzled(row, word);
      EXPECT_EQ(place / kHalfRowBytes, row);
      EXPECT_EQ(place % 16, word % 4 * 4);
      places.insert(place);
    }
    // Eight rows' pieces of the same columns lie in different banks.
    std::set<unsigned> banks;
    for (unsigned i = 0; i < 8; ++i) banks.insert(swizzled(row / 8 * 8 + i, 4 * (row % 8)) % 128);
    EXPECT_EQ(banks.size(), 8U);
  }
  EXPECT_EQ(places.size(), rows * words);
  EXPECT_EQ(*places.rbegin(), rows * kHalfRowBytes - 4);
}

// Each tile is in one of the shares.
void check_shares(std::size_t tiles, std::size_t shares, std::size_t least) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < shares; ++i) {
    const Range share = group_of(tiles, shares, i);
    ASSERT_EQ(share.begin, next);
    ASSERT_GE(share.size(), least);
    next = share.end;
  }
  ASSERT_EQ(next, tiles);
}

TEST(CudaIndex, FusedPlansCoverEachTileOnce) {
  for (const std::size_t rows : {1UL, 64UL, 256UL, 257UL, 1024UL, 40'000UL}) {
    for (const std::size_t outputs : {1UL, 96UL, 97UL, 983UL, 670'091UL}) {
      for (const std::size_t multiprocessors : {1UL, 4UL, 78UL, 132UL, 144UL}) {
        const FusedPlan plan = plan_fused(rows, outputs, multiprocessors);
        EXPECT_EQ(plan.padded_rows, round_up(rows, kGroupSamples));
        EXPECT_EQ(plan.groups * kGroupSamples, plan.padded_rows);
        // Each block of the scores has a tile, and the GPU has no more of them than it takes.
        check_shares(ceil_divide(outputs, kScoreLabels), plan.ranges, 1);
        EXPECT_LE(plan.ranges * plan.groups, std::max(multiprocessors, plan.groups));
        check_shares(ceil_divide(outputs, kUpdateLabels), plan.update_blocks, 0);
      }
    }
  }
  EXPECT_EQ(plan_fused(0, 100, 132).padded_rows, 0U);
}

TEST(CudaIndex, LayerPlansCoverAllLabelsWithinTheBudget) {
  for (const std::size_t rows : {1UL, 7UL, 256UL, 1024UL, 5000UL}) {
    for (const std::size_t outputs : {1UL, 983UL, 4096UL, 4097UL, 205'443UL, 670'091UL}) {
      for (const std::size_t budget : {0UL, 1UL << 20, 100UL << 20, 1UL << 30, 9UL << 30}) {
        check_plan(rows, outputs, 4, budget, kBlockBytes);
        check_plan(rows, outputs, 8, budget, kBlockBytes);
        check_plan(rows, outputs, 4, budget, kScoringBlockBytes);
      }
    }
  }
  EXPECT_EQ(plan_layer(0, 100, 4, 1 << 20, kBlockBytes).blocks, 0U);
  // The largest known shape on 16 GiB / 8: 1,024 rows keep the part that fits, and 2.7 GB never
  // stand in memory.
  const LayerPlan plan = plan_layer(1024, 670'091, 4, std::size_t{2} << 30, kBlockBytes);
  EXPECT_GT(plan.kept, plan.blocks / 4);
  EXPECT_LT(plan.kept, plan.blocks);
}

}  // namespace
}  // namespace hetsgd::test
