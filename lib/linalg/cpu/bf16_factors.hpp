// Products of packed factors in BF16, by AMX where this processor has it and by FMA instructions
// elsewhere. The bits are those of bf16.hpp in both.
//
//   left   [rows x depth]      row by row
//   right  [depth x kPanel]    a panel of columns
//   S      [rows x kPanel]     sums in FP32
//
// The inside of a pack depends on the instructions. Packs and S are aligned to 64 bytes.
#pragma once

#include <cstddef>

#include "linalg/cpu/bf16.hpp"

namespace hetsgd::cpu {

// Packs and S have room for rows, and packs for a depth, up to the next multiple of this.
inline constexpr std::size_t kBf16Padding = 32;

// Rounds from[i * row_stride + k * k_stride] into a left factor.
void pack_bf16_left(std::size_t rows, std::size_t depth, const float* from, std::size_t row_stride,
                    std::size_t k_stride, float* left);

// Rounds from[k * k_stride + j * column_stride], j < columns <= kPanel, into a right factor.
void pack_bf16_right(std::size_t depth, std::size_t columns, const float* from,
                     std::size_t k_stride, std::size_t column_stride, float* right);

// S = left right if `first`, else S += left right. A product in several calls has a multiple of
// kBf16Block factors in all but the last. Columns from `columns` on are undefined.
void multiply_bf16(std::size_t rows, std::size_t columns, std::size_t depth, const float* left,
                   const float* right, bool first, float* S);

}  // namespace hetsgd::cpu
