// The products of AMX (linalg/cpu/amx.hpp) over a model of its tiles, beside the definition. On a
// processor with AMX the same products by its instructions have the same bits.
#include "linalg/cpu/amx.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.hpp"
#include "linalg/cores/amx.hpp"

namespace hetsgd::test {
namespace {

// Tiles of 16 rows of 64 bytes, as Intel's manual describes TDPBF16PS, in the order of additions of
// bf16.hpp.
class ModelTiles {
 public:
  template <int tile>
  void clear() {
    for (auto& row : tile_[tile]) std::fill_n(row, 16, 0u);
  }
  template <int tile>
  void load(const void* from, std::size_t stride) {
    for (std::size_t r = 0; r < 16; ++r) {
      std::memcpy(tile_[tile][r], static_cast<const char*>(from) + r * stride, 64);
    }
  }
  template <int tile>
  void store(void* to, std::size_t stride) {
    for (std::size_t r = 0; r < 16; ++r) {
      std::memcpy(static_cast<char*>(to) + r * stride, tile_[tile][r], 64);
    }
  }
  template <int sum, int a, int b>
  void multiply() {
    for (std::size_t m = 0; m < 16; ++m) {
      for (std::size_t n = 0; n < 16; ++n) {
        float even = 0, odd = 0;
        for (std::size_t pair = 0; pair < 16; ++pair) {
          const std::uint32_t x = tile_[a][m][pair], y = tile_[b][pair][n];
          even = std::fma(number(x << 16), number(y << 16), even);
          odd = std::fma(number(x & 0xFFFF0000u), number(y & 0xFFFF0000u), odd);
        }
        std::uint32_t& s = tile_[sum][m][n];
        s = std::bit_cast<std::uint32_t>(number(s) + (even + odd));
      }
    }
  }

 private:
  static float number(std::uint32_t bits) { return std::bit_cast<float>(bits); }
  std::uint32_t tile_[8][16][16] = {};
};

struct AmxShape {
  std::size_t rows, columns, depth;
};
const AmxShape kAmxShapes[] = {{1, 1, 1},   {16, 16, 32}, {32, 32, 64}, {33, 17, 31},
                               {70, 32, 0}, {5, 20, 100}, {64, 9, 256}};

std::vector<float> floats_in_one(std::size_t n, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  std::vector<float> values(n);
  for (float& x : values) x = static_cast<float>(random.uniform(-1, 1));
  return values;
}

std::size_t to_whole_tiles(std::size_t n) { return (n + 31) / 32 * 32; }

// S of two calls, the second of which adds: its factors are those of the first. Packs of memory
// that is not aligned would be slow, not wrong.
template <class Tiles>
std::vector<float> sums_by(const AmxShape& shape, bool transposed_a, bool transposed_b) {
  using Products = cpu::AmxProducts<Tiles>;
  const auto& [rows, columns, depth] = shape;
  const auto A = floats_in_one(rows * depth, 1), B = floats_in_one(depth * columns, 2);
  std::vector<float> left(to_whole_tiles(rows) * to_whole_tiles(depth)),
      right(to_whole_tiles(depth) * 32), S(to_whole_tiles(rows) * 32, NAN);
  Products::pack_left(rows, depth, A.data(), transposed_a ? 1 : depth, transposed_a ? rows : 1,
                      left.data());
  Products::pack_right(depth, columns, B.data(), transposed_b ? 1 : columns,
                       transposed_b ? depth : 1, right.data());
  for (const bool first : {true, false}) {
    Products::multiply(rows, columns, depth, left.data(), right.data(), first, S.data());
  }
  std::vector<float> found;
  for (std::size_t i = 0; i < rows; ++i) {
    found.insert(found.end(), S.data() + i * 32, S.data() + i * 32 + columns);
  }
  return found;
}

std::vector<float> amx_by_definition(const AmxShape& shape, bool transposed_a, bool transposed_b) {
  const auto& [rows, columns, depth] = shape;
  const auto A = floats_in_one(rows * depth, 1), B = floats_in_one(depth * columns, 2);
  std::vector<float> found(rows * columns, 0);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      float& S = found[i * columns + j];
      for (int call = 0; call < 2; ++call) {
        for (std::size_t block = 0; block < depth; block += 32) {
          float sum[2] = {0, 0};
          for (std::size_t k = block; k < std::min(depth, block + 32); ++k) {
            const float a = cpu::bf16(A[transposed_a ? k * rows + i : i * depth + k]);
            const float b = cpu::bf16(B[transposed_b ? j * depth + k : k * columns + j]);
            sum[k % 2] = std::fma(a, b, sum[k % 2]);
          }
          S += sum[0] + sum[1];
        }
      }
    }
  }
  return found;
}

TEST(Amx, ProductsOverModelTilesHaveTheBitsOfTheDefinition) {
  for (const AmxShape& shape : kAmxShapes) {
    for (const int transposed : {0, 1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << shape.rows << "x" << shape.columns << "x" << shape.depth
                                        << " " << transposed);
      const bool a = transposed % 2 == 1, b = transposed > 1;
      EXPECT_EQ(sums_by<ModelTiles>(shape, a, b), amx_by_definition(shape, a, b));
    }
  }
}

TEST(Amx, InstructionsHaveTheBitsOfTheModel) {
  if (!cpu::no_amx().empty()) GTEST_SKIP() << "no AMX: " << cpu::no_amx();
#if defined(__x86_64__)
  for (const AmxShape& shape : kAmxShapes) {
    EXPECT_EQ(sums_by<cpu::AmxTiles>(shape, false, true), sums_by<ModelTiles>(shape, false, true));
    EXPECT_EQ(sums_by<cpu::AmxTiles>(shape, true, false), sums_by<ModelTiles>(shape, true, false));
  }
#endif
}

}  // namespace
}  // namespace hetsgd::test
