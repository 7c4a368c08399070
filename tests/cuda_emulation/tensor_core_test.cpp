// The emulated units of Hopper GPUs must find missing waits, or tests of kernels on them show
// little.
#include "linalg/cuda/tensor_core.cuh"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace {

using hetsgd_emulation::launch_with;
using namespace hetsgd::cuda;

[[maybe_unused]] const int set = setenv("CUDA_EMULATION_MEMORY", "64M", 1);

enum class Fault { none, copy, product, last_product, begin, alignment, bounds, turn, barrier };

struct TestShared {
  unsigned char B[64 * kTileColumns * 2];
  Barrier come, unused;
};

// D [64 x 64] = A B^T over the first 16 columns, and its first column back to `to`.
void multiply(Fault fault, const unsigned char* B, float* to) {
  TestShared& s = *static_cast<TestShared*>(hetsgd_emulation::dynamic_shared_memory());
  if (threadIdx.x == 0) {
    start_barrier(&s.come, 1);
    arrive_with_bytes(&s.come, sizeof s.B);
    copy_to_shared(s.B, B, sizeof s.B, &s.come);
  }
  __syncthreads();
  if (fault != Fault::copy) await(&s.come, 0);
  if (fault == Fault::barrier) await(&s.unused, 0);
  if (fault == Fault::turn) {
    give_turn(1);
    give_turn(1);
  }
  const unsigned char* const tile = s.B + (fault == Fault::alignment ? 128 : 0);
  const std::uint32_t at = tile_operand(tile, 64) + (fault == Fault::bounds ? 1024U : 0U);
  // Row r of A has r at column 0 and 1 at column 1.
  const unsigned row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  std::uint32_t A[4] = {};
  if (threadIdx.x % 4 == 0) {
    A[0] = round_pair<Half16>(static_cast<float>(row), 1);
    A[1] = round_pair<Half16>(static_cast<float>(row + 8), 1);
  }
  float D[32];
  for (float& d : D) d = 1000;
  if (fault != Fault::begin) begin_products();
  multiply_columns(Half16(), D, A, at, true);
  end_products();
  if (fault != Fault::product) await_products();
  if (threadIdx.x % 4 == 0) {
    to[row] = D[0];
    to[row + 8] = D[2];
  }
  if (fault == Fault::copy) await(&s.come, 0);
  if (fault == Fault::product) await_products();
  if (fault == Fault::last_product) {
    begin_products();
    multiply_columns(Half16(), D, A, at, true);
    end_products();
  }
}

class EmulatedUnits : public ::testing::Test {
 protected:
  EmulatedUnits() {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&B_, kTileBytes), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&to_, 64 * sizeof(float)), cudaSuccess);
  }
  // Row 0 of B has 2 at column 0 and 3 at column 1.
  std::vector<float> run(Fault fault, unsigned blocks = 4) {
    std::vector<std::uint16_t> B(kTileBytes / 2);
    B[0] = hetsgd_emulation::to_fp16(2);
    B[1] = hetsgd_emulation::to_fp16(3);
    cudaMemcpyAsync(B_, B.data(), kTileBytes, cudaMemcpyHostToDevice, stream_);
    launch_with(blocks, 128, sizeof(TestShared), stream_, multiply, fault, B_, to_);
    std::vector<float> found(64);
    cudaMemcpyAsync(found.data(), to_, 64 * sizeof(float), cudaMemcpyDeviceToHost, stream_);
    cudaStreamSynchronize(stream_);
    return found;
  }

  static constexpr std::size_t kTileBytes = 64 * kTileColumns * 2;
  cudaStream_t stream_ = nullptr;
  unsigned char* B_ = nullptr;
  float* to_ = nullptr;
};

TEST_F(EmulatedUnits, MultiplyInEachOrder) {
  for (unsigned blocks = 1; blocks <= 8; ++blocks) {
    const std::vector<float> found = run(Fault::none, blocks);
    for (int row = 0; row < 64; ++row)
      EXPECT_EQ(found[static_cast<std::size_t>(row)], 1003.0F + 2.0F * static_cast<float>(row));
  }
}

TEST_F(EmulatedUnits, MissingWaitsGiveNoNumber) {
  EXPECT_TRUE(std::isnan(run(Fault::product, 1)[0]));
  EXPECT_TRUE(std::isnan(run(Fault::copy, 2)[0]));  // the second block's products are early
}

TEST_F(EmulatedUnits, MisuseEndsTheProgram) {
  EXPECT_DEATH(run(Fault::last_product), "ended before its products were over");
  EXPECT_DEATH(run(Fault::begin), "before begin_products");
  EXPECT_DEATH(run(Fault::alignment), "multiple of 1024");
  EXPECT_DEATH(run(Fault::bounds), "a product reads at");
  EXPECT_DEATH(run(Fault::turn), "arrives twice");
  EXPECT_DEATH(run(Fault::barrier), "was not started");
}

TEST(EmulatedFormats, RoundToTheNearest) {
  using hetsgd_emulation::to_bf16;
  using hetsgd_emulation::to_fp16;
  EXPECT_EQ(to_fp16(1), 0x3C00);
  EXPECT_EQ(to_fp16(1 + 0x1p-11F), 0x3C00);  // a tie, to even
  EXPECT_EQ(to_fp16(1 + 0x3p-11F), 0x3C02);
  EXPECT_EQ(to_fp16(-0x1p-24F), 0x8001);
  EXPECT_EQ(to_fp16(0x1p-25F), 0);
  EXPECT_EQ(to_fp16(0x1p-14F - 0x1p-26F), 0x0400);
  EXPECT_EQ(to_fp16(65519.0F), 0x7BFF);
  EXPECT_EQ(to_fp16(65520.0F), 0x7C00);
  EXPECT_EQ(to_bf16(-1 - 0x1p-8F), 0xBF80);
  EXPECT_EQ(to_bf16(1 + 0x3p-8F), 0x3F82);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  for (const float nan : {NAN, -NAN}) {
    EXPECT_EQ(to_fp16(nan), 0x7FFF);
    EXPECT_EQ(to_bf16(nan), 0x7FFF);
  }
}

}  // namespace
