// Products of packed factors in BF16 by the tiles of Intel's AMX, whose order of additions is that
// of bf16.hpp. AMX rounds to nearest and flushes subnormal numbers whatever MXCSR says.
//
//   left   [tile of 16 rows][block of 32 factors][row][factor]              16 bits each
//   right  [block of 32 factors][tile of 16 columns][pair][column][factor]  16 bits each
//
// A tile of a factor is 1 KiB in one piece. Four tiles of S, 32 x 32, stay in registers over all
// blocks. `Tiles` are the instructions, or in tests a model of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "linalg/cpu/bf16.hpp"
#include "linalg/cpu/lanes.hpp"

namespace hetsgd::cpu {

// The registers tmm0 to tmm7 of this thread, with 16 rows of 64 bytes each. A row of the memory
// lies `stride` bytes behind the one before it.
struct AmxTiles {
  struct alignas(64) Configuration {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };

#if defined(__x86_64__)
  AmxTiles() {
    static constexpr Configuration kAll{};
    asm volatile("ldtilecfg %0" ::"m"(kAll));
  }
  // Otherwise the kernel saves 8 KiB at each switch to another thread.
  ~AmxTiles() { asm volatile("tilerelease"); }
  template <int tile>
  HETSGD_INLINE void clear() {
    asm volatile("tilezero %%tmm%c0" ::"i"(tile));
  }
  template <int tile>
  HETSGD_INLINE void load(const void* from, std::size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
  }
  template <int tile>
  HETSGD_INLINE void store(void* to, std::size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
  }
  // sum += a b for one block of factors.
  template <int sum, int a, int b>
  HETSGD_INLINE void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(a), "i"(b));
  }
#endif
};

template <class Tiles>
class AmxProducts {
 public:
  static constexpr std::size_t kColumns = 32;  // of a panel

  // As the functions of bf16_factors.hpp, for panels of kColumns columns.
  static void pack_left(std::size_t rows, std::size_t depth, const float* from,
                        std::size_t row_stride, std::size_t k_stride, float* left) {
    auto* to = reinterpret_cast<std::uint16_t*>(left);
    for (std::size_t i = 0; i < whole(rows, 2 * kSide); i += kSide) {
      for (std::size_t k = 0; k < depth; k += kBf16Block, to += kTile) {
        float room[kSide * kBf16Block];
        const Piece piece =
            piece_of<kSide, kBf16Block>(rows, depth, from, row_stride, k_stride, i, k, room);
        for (std::size_t r = 0; r < kSide; ++r) {
          for (std::size_t q = 0; q < kBf16Block; q += kLanes<float>) {
            narrow(bf16(load(piece.data + r * piece.stride + q)), to + r * kBf16Block + q);
          }
        }
      }
    }
  }

  static void pack_right(std::size_t depth, std::size_t columns, const float* from,
                         std::size_t k_stride, std::size_t column_stride, float* right) {
    auto* to = reinterpret_cast<std::uint32_t*>(right);
    for (std::size_t k = 0; k < depth; k += kBf16Block) {
      for (std::size_t j = 0; j < kColumns; j += kSide, to += kTile / 2) {
        float room[kSide * kBf16Block];
        const Piece piece =
            piece_of<kBf16Block, kSide>(depth, columns, from, k_stride, column_stride, k, j, room);
        for (std::size_t pair = 0; pair < kSide; ++pair) {
          const float* const even = piece.data + 2 * pair * piece.stride;
          const auto low = bits_as<std::uint32_t>(bf16(load(even)));
          const auto high = bits_as<std::uint32_t>(bf16(load(even + piece.stride)));
          store(to + pair * kSide, shifted_down(low) | high);
        }
      }
    }
  }

  __attribute__((noinline)) static void multiply(std::size_t rows, std::size_t columns,
                                                 std::size_t depth, const float* left,
                                                 const float* right, bool first, float* S) {
    const auto* a = reinterpret_cast<const std::uint16_t*>(left);
    const auto* const b = reinterpret_cast<const std::uint16_t*>(right);
    const std::size_t blocks = whole(depth, kBf16Block) / kBf16Block;
    Tiles tiles;
    for (std::size_t i = 0; i < rows; i += 2 * kSide, a += 2 * blocks * kTile) {
      float* const to = S + i * kColumns;
      if (columns > kSide) {
        square<2>(tiles, blocks, a, b, first, to);
      } else {
        square<1>(tiles, blocks, a, b, first, to);
      }
    }
  }

 private:
  static constexpr std::size_t kSide = 16, kTile = kSide * kBf16Block;  // numbers

  struct Piece {
    const float* data;
    std::size_t stride;
  };

  static std::size_t whole(std::size_t n, std::size_t of) { return (n + of - 1) / of * of; }

  // A part of the matrix from[row * row_stride + column * column_stride]: in place if its rows are
  // whole and in one piece, else a copy in `room` with zeros beyond the matrix.
  template <std::size_t height, std::size_t width>
  static Piece piece_of(std::size_t rows, std::size_t columns, const float* from,
                        std::size_t row_stride, std::size_t column_stride, std::size_t row,
                        std::size_t column, float* room) {
    const bool inside = row + height <= rows && column + width <= columns;
    const std::size_t begin = row * row_stride + column * column_stride;
    if (inside && column_stride == 1) return {from + begin, row_stride};
    if (inside && row_stride == 1) {
      transpose(width, height, from + begin, column_stride, room, width);
      return {room, width};
    }
    for (std::size_t i = 0; i < height; ++i) {
      for (std::size_t j = 0; j < width; ++j) {
        const bool there = row + i < rows && column + j < columns;
        room[i * width + j] = there ? from[begin + i * row_stride + j * column_stride] : 0.0F;
      }
    }
    return {room, width};
  }

  // S, 32 x 32 or with `width` 1 its left half.
  template <int width>
  static HETSGD_INLINE void square(Tiles& tiles, std::size_t blocks, const std::uint16_t* a,
                                   const std::uint16_t* b, bool first, float* S) {
    constexpr std::size_t kRow = kColumns * sizeof(float), kNumbers = kBf16Block * 2;
    float* const below = S + kSide * kColumns;
    if (first) {
      tiles.template clear<0>();
      tiles.template clear<2>();
      if constexpr (width == 2) tiles.template clear<1>(), tiles.template clear<3>();
    } else {
      tiles.template load<0>(S, kRow);
      tiles.template load<2>(below, kRow);
      if constexpr (width == 2) {
        tiles.template load<1>(S + kSide, kRow);
        tiles.template load<3>(below + kSide, kRow);
      }
    }
    for (std::size_t k = 0; k < blocks; ++k, a += kTile, b += 2 * kTile) {
      tiles.template load<4>(a, kNumbers);
      tiles.template load<5>(a + blocks * kTile, kNumbers);
      tiles.template load<6>(b, kNumbers);
      tiles.template multiply<0, 4, 6>();
      tiles.template multiply<2, 5, 6>();
      if constexpr (width == 2) {
        tiles.template load<7>(b + kTile, kNumbers);
        tiles.template multiply<1, 4, 7>();
        tiles.template multiply<3, 5, 7>();
      }
    }
    tiles.template store<0>(S, kRow);
    tiles.template store<2>(below, kRow);
    if constexpr (width == 2) {
      tiles.template store<1>(S + kSide, kRow);
      tiles.template store<3>(below + kSide, kRow);
    }
  }

  static HETSGD_INLINE Vector<std::uint32_t> shifted_down(const Vector<std::uint32_t>& x) {
    Vector<std::uint32_t> y;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kRegisters; ++i) y.part[i] = x.part[i] >> 16;
    return y;
  }

  // The upper halves of numbers that BF16 holds exactly.
  static HETSGD_INLINE void narrow(const Vec<float>& x, std::uint16_t* to) {
    typedef std::uint16_t Half __attribute__((vector_size(kRegisterBytes / 2)));
    const auto down = shifted_down(bits_as<std::uint32_t>(x));
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kRegisters; ++i) {
      const Half half = __builtin_convertvector(down.part[i], Half);
      std::memcpy(to + i * kRegisterLanes<float>, &half, sizeof(half));
    }
  }
};

}  // namespace hetsgd::cpu
