// The index arithmetic of the CUDA kernels: which thread does what, and how ordered pieces are
// found and merged. It also runs on the host, where tests/linalg/cuda_index_test.cpp checks it.
//
// Nothing here depends on the GPU, only on the operands' sizes. So a sum has one order, and the
// same bits, in every run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/host_device.hpp"

namespace hetsgd::cuda {

inline constexpr std::size_t kWarp = 32;
inline constexpr std::size_t kThreads = 256;  // per block, in every kernel
inline constexpr std::size_t kWarps = kThreads / kWarp;
// Upper bound of the blocks of one launch; with more tasks, a block does several. It fills any GPU
// many times over, and is far below the limit of 2^31 - 1.
inline constexpr std::size_t kMostBlocks = std::size_t{1} << 16;

HETSGD_HOST_DEVICE constexpr std::size_t smaller(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}
HETSGD_HOST_DEVICE constexpr std::size_t larger(std::size_t a, std::size_t b) {
  return a < b ? b : a;
}
HETSGD_HOST_DEVICE constexpr std::size_t ceil_divide(std::size_t n, std::size_t by) {
  return n / by + (n % by != 0 ? 1 : 0);
}
HETSGD_HOST_DEVICE constexpr std::size_t round_up(std::size_t n, std::size_t to) {
  return ceil_divide(n, to) * to;
}

// Whether 16 bytes at once, a thread's widest access, may begin there.
inline bool is_aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

// The number of blocks for `tasks` tasks, `per_block` of them side by side. 0 tasks give 0 blocks,
// which must not be launched.
HETSGD_HOST_DEVICE constexpr std::size_t blocks_for(std::size_t tasks, std::size_t per_block) {
  return smaller(ceil_divide(tasks, per_block), kMostBlocks);
}

struct Range {
  std::size_t begin = 0, end = 0;
  HETSGD_HOST_DEVICE constexpr std::size_t size() const { return end - begin; }
};

// Columns of a matrix cut into pieces of `width`: task t is piece t % pieces of row t / pieces.
struct Tile {
  std::size_t row = 0;
  Range columns;
};
HETSGD_HOST_DEVICE constexpr Tile tile_of(std::size_t task, std::size_t columns,
                                          std::size_t width) {
  const std::size_t pieces = ceil_divide(columns, width);
  const std::size_t begin = task % pieces * width;
  return {task / pieces, {begin, smaller(columns, begin + width)}};
}

// --- sums ----------------------------------------------------------------------------------------
// A reduction of n elements goes through this many partial sums.
inline constexpr std::size_t kMostPartials = 1024;
HETSGD_HOST_DEVICE constexpr std::size_t partial_sums(std::size_t n) {
  return smaller(ceil_divide(n, kThreads * 16), kMostPartials);
}

// Sums over the rows of a matrix: the number of groups of rows, chosen so that there are enough
// blocks also for few columns. A group has at least `kGroupRows` rows.
inline constexpr std::size_t kGroupRows = 64;
inline constexpr std::size_t kEnoughBlocks = 1024;
HETSGD_HOST_DEVICE constexpr std::size_t row_groups(std::size_t rows, std::size_t columns) {
  const std::size_t tiles = larger(ceil_divide(columns, kThreads), 1);
  const std::size_t wanted = larger(kEnoughBlocks / tiles, 1);
  return smaller(ceil_divide(rows, kGroupRows), wanted);
}
// Group g of `groups` over `rows` rows. Sizes differ by at most one.
HETSGD_HOST_DEVICE constexpr Range group_of(std::size_t rows, std::size_t groups, std::size_t g) {
  return {rows * g / groups, rows * (g + 1) / groups};
}

// --- ordered pieces ------------------------------------------------------------------------------
// The first position in [begin, end) of the ascending `values` whose value is at least `least`.
HETSGD_HOST_DEVICE constexpr std::uint64_t lower_bound(const std::uint32_t* values,
                                                       std::uint64_t begin, std::uint64_t end,
                                                       std::uint64_t least) {
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    if (values[middle] < least) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// The number of bits that a sort by column must look at to tell `columns` column numbers apart.
HETSGD_HOST_DEVICE constexpr int key_bits(std::size_t columns) {
  int bits = 1;
  while (bits < 32 && (std::size_t{1} << bits) < columns) ++bits;
  return bits;
}

// --- the output layer ----------------------------------------------------------------------------
// Columns of one partial softmax: 16 per lane of a warp, in registers.
inline constexpr std::size_t kPart = kWarp * 16;
// Columns that a block of threads works on side by side.
inline constexpr std::size_t kSegment = kWarps * kPart;

// Rows per thread of the softmax's statistics; the thread keeps its bias for them. They are many if
// there are enough blocks anyway.
HETSGD_HOST_DEVICE constexpr std::size_t statistics_rows(std::size_t rows, std::size_t columns) {
  const std::size_t segments = larger(ceil_divide(columns, kSegment), 1);
  return larger(smaller(rows * segments / kEnoughBlocks, 16), 1);
}

// The number of groups of rows of the softmax's gradient. Its blocks of threads have up to
// kGradientColumns columns.
inline constexpr std::size_t kGradientColumns = kThreads * 4;
HETSGD_HOST_DEVICE constexpr std::size_t gradient_groups(std::size_t rows, std::size_t columns) {
  const std::size_t tiles = larger(ceil_divide(columns, kGradientColumns), 1);
  return smaller(ceil_divide(rows, 16), larger(2 * kEnoughBlocks / tiles, 1));
}

// How a softmax layer of `rows` x `outputs` logits is processed in blocks of labels. A block has at
// most `block_bytes`, or one segment. The logits of the first `kept` blocks stay in memory between
// the two passes, as `budget` bytes allow. The logits of the others are computed twice, in shared
// room. Blocks depend on nothing else, so a layer has the same bits on a small GPU.
struct LayerPlan {
  std::size_t block = 0;  // labels of a block; the last one may have fewer
  std::size_t blocks = 0;
  std::size_t kept = 0;
  std::size_t numbers = 0;  // elements in memory at once
  std::size_t parts = 0;    // partial softmaxes per row
};
// Block size of training. There are few blocks, since each kernel and product takes time to fill
// and to drain the GPU. (Blocks of 32 MB stay in the L2 cache and save reads, but on an H200 an
// Amazon-670k step took 1.6 to 1.9 times as long with them.)
inline constexpr std::size_t kBlockBytes = std::size_t{1} << 30;
// Block size of evaluation, which should leave the memory to others. Blocks of 32 MB, which stay in
// the L2 cache, would be products of a few microseconds each, and the host is slower than that.
inline constexpr std::size_t kScoringBlockBytes = std::size_t{256} << 20;

// The distance between rows of a block's logits, in elements: all rows begin at a cache line.
HETSGD_HOST_DEVICE constexpr std::size_t block_stride(std::size_t columns) {
  return round_up(columns, 32);
}

// Columns of one of the products that compute a block's logits.
inline constexpr std::size_t kProductColumns = 2048;
// The columns of a block that one product takes. cuBLAS has slower kernels for odd numbers of
// columns, whatever the stride, so the last few of many have a product of their own: the 670,091
// labels of Amazon-670k are 64 * 10,470 + 11.
HETSGD_HOST_DEVICE constexpr std::size_t aligned_columns(std::size_t columns) {
  return columns < kSegment ? columns : columns / 64 * 64;
}

HETSGD_HOST_DEVICE constexpr LayerPlan plan_layer(std::size_t rows, std::size_t outputs,
                                                  std::size_t number_bytes, std::size_t budget,
                                                  std::size_t block_bytes) {
  LayerPlan plan;
  if (rows == 0 || outputs == 0) return plan;
  const std::size_t label_bytes = rows * number_bytes;
  const std::size_t least = ceil_divide(block_stride(outputs) * label_bytes, block_bytes);
  // Blocks of about the same size; all but the last one are whole segments.
  plan.block = outputs;
  if (least > 1) plan.block = smaller(round_up(ceil_divide(outputs, least), kSegment), outputs);
  plan.blocks = ceil_divide(outputs, plan.block);
  plan.parts = ceil_divide(outputs, kPart);
  const std::size_t room = larger(budget / (block_stride(plan.block) * label_bytes), 1);
  plan.kept = plan.blocks <= room ? plan.blocks : room - 1;
  plan.numbers = smaller(room, plan.blocks) * block_stride(plan.block) * rows;
  return plan;
}
HETSGD_HOST_DEVICE constexpr Range block_labels(const LayerPlan& plan, std::size_t outputs,
                                                std::size_t block) {
  return {block * plan.block, smaller(outputs, (block + 1) * plan.block)};
}
// The start of the block's logits, in elements.
HETSGD_HOST_DEVICE constexpr std::size_t block_offset(const LayerPlan& plan, std::size_t rows,
                                                      std::size_t block) {
  return smaller(block, plan.kept) * plan.block * rows;
}

// --- the k largest -------------------------------------------------------------------------------
// Whether (a, i) ranks before (b, j): larger first, NaN last, the smaller label first among equals.
// This is a total order, so the best k do not depend on how the search is divided.
template <class Real>
HETSGD_HOST_DEVICE constexpr bool ranks_before(Real a, std::uint32_t i, Real b, std::uint32_t j) {
  const bool a_is_nan = a != a, b_is_nan = b != b;
  if (a_is_nan != b_is_nan) return b_is_nan;
  if (!a_is_nan && a != b) return a > b;
  return i < j;
}

// A label that, with a NaN score, ranks behind all others.
inline constexpr std::uint32_t kNoLabel = 0xFFFFFFFFU;
// Columns that one block searches.
inline constexpr std::size_t kTopSegment = kThreads * 64;

// The K best so far, best first. The loops have constant bounds and are unrolled, so that on the
// GPU the entries are registers.
template <class Real, int K>
struct Best {
  Real score[K];
  std::uint32_t label[K];

  // Forgets all entries; `nan` must be a NaN.
  HETSGD_HOST_DEVICE void clear(Real nan) {
    for (int i = 0; i < K; ++i) {
      score[i] = nan;
      label[i] = kNoLabel;
    }
  }

  HETSGD_HOST_DEVICE void insert(Real s, std::uint32_t l) {
    if (!ranks_before(s, l, score[K - 1], label[K - 1])) return;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int i = K - 1; i > 0; --i) {
      const bool before_left = ranks_before(s, l, score[i - 1], label[i - 1]);
      const bool before_this = ranks_before(s, l, score[i], label[i]);
      if (before_left) {
        score[i] = score[i - 1];
        label[i] = label[i - 1];
      } else if (before_this) {
        score[i] = s;
        label[i] = l;
      }
    }
    if (ranks_before(s, l, score[0], label[0])) {
      score[0] = s;
      label[0] = l;
    }
  }
};

}  // namespace hetsgd::cuda
