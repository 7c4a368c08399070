// The sizes of the fused softmax layer (fused_softmax.hpp): its tiles, and what each block does.
#pragma once

#include <cstddef>

#include "linalg/cuda/index.hpp"

namespace hetsgd::cuda {

inline constexpr std::size_t kFusedInputs = 128;   // columns of A and W
inline constexpr std::size_t kGroupSamples = 256;  // rows of A of a block of the scores
inline constexpr std::size_t kChunkRows = 64;      // rows of A that the update takes at a time
inline constexpr std::size_t kScoreLabels = 96;    // labels of a tile of the scores
inline constexpr std::size_t kUpdateLabels = 64;   // labels of a tile of the update
inline constexpr std::size_t kChunkTileBytes = kChunkRows * kFusedInputs * 2;

// How rows and labels are shared out to the blocks of a GPU with so many multiprocessors.
struct FusedPlan {
  std::size_t groups = 0, padded_rows = 0, ranges = 0, update_blocks = 0;
};
constexpr FusedPlan plan_fused(std::size_t rows, std::size_t outputs, std::size_t multiprocessors) {
  const std::size_t groups = ceil_divide(rows, kGroupSamples);
  const std::size_t wanted = larger(multiprocessors / larger(groups, 1), 1);
  return {.groups = groups,
          .padded_rows = groups * kGroupSamples,
          .ranges = smaller(wanted, ceil_divide(outputs, kScoreLabels)),
          .update_blocks = multiprocessors};
}

}  // namespace hetsgd::cuda
