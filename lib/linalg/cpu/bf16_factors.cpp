#include "linalg/cpu/bf16_factors.hpp"

#include "linalg/cores/amx.hpp"
#include "linalg/cpu/amx.hpp"
#include "linalg/cpu/lanes.hpp"
#include "linalg/cpu/panel.hpp"
#include "linalg/cpu/tile.hpp"

namespace hetsgd::cpu {

namespace {

// The choice of this process. Panels of a processor with AMX, which has AVX-512, are as wide as two
// tiles.
bool by_amx() {
#if defined(__x86_64__)
  if constexpr (kPanel<float> == AmxProducts<AmxTiles>::kColumns) {
    static const bool allowed = no_amx().empty();
    return allowed;
  }
#endif
  return false;
}

// For FlushToZero: all arithmetic that is done so.
template <int vectors>
__attribute__((noinline)) void multiply(std::size_t rows, std::size_t depth, const float* left,
                                        const float* right, bool first, float* S) {
  for_row_tiles<kBf16Rows>(rows, [&](std::size_t i, auto tile) {
    constexpr int kTile = decltype(tile)::value;
    float* const to = S + i * kPanel<float>;
    Vec<float> sum[kTile][vectors] = {};
    if (!first) load_tile<float, kTile, vectors>(to, kPanel<float>, sum);
    accumulate_bf16<kTile, vectors>(depth, left + i * depth, depth, 1, right, kPanel<float>, sum);
    store_tile<float, kTile, vectors>(sum, to, kPanel<float>);
  });
}

}  // namespace

void pack_bf16_left(std::size_t rows, std::size_t depth, const float* from, std::size_t row_stride,
                    std::size_t k_stride, float* left) {
  if (by_amx()) {
    return AmxProducts<AmxTiles>::pack_left(rows, depth, from, row_stride, k_stride, left);
  }
  if (k_stride == 1) {
    for (std::size_t i = 0; i < rows; ++i) {
      round_to_bf16(depth, from + i * row_stride, left + i * depth);
    }
    return;
  }
  if (row_stride == 1) {
    transpose(depth, rows, from, k_stride, left, depth);
    return round_to_bf16(rows * depth, left, left);
  }
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < depth; ++k) {
      left[i * depth + k] = bf16(from[i * row_stride + k * k_stride]);
    }
  }
}

void pack_bf16_right(std::size_t depth, std::size_t columns, const float* from,
                     std::size_t k_stride, std::size_t column_stride, float* right) {
  if (by_amx()) {
    return AmxProducts<AmxTiles>::pack_right(depth, columns, from, k_stride, column_stride, right);
  }
  pack_panel(from, k_stride, column_stride, depth, columns, right);
  round_to_bf16(depth * kPanel<float>, right, right);
}

void multiply_bf16(std::size_t rows, std::size_t columns, std::size_t depth, const float* left,
                   const float* right, bool first, float* S) {
  if (by_amx()) {
    return AmxProducts<AmxTiles>::multiply(rows, columns, depth, left, right, first, S);
  }
  const FlushToZero flush;
  if (columns > kLanes<float>) {
    multiply<kTileVectors>(rows, depth, left, right, first, S);
  } else {
    multiply<1>(rows, depth, left, right, first, S);
  }
}

}  // namespace hetsgd::cpu
