// Tests that need a GPU. Where there is none, the program says so in one line and is skipped.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd::test {

inline constexpr int kSkipped = 77;  // as CTest is told

inline int run_gpu_tests(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const CudaPlatform platform = cuda_platform(); platform.gpus.empty()) {
    fmt::print("skipped: {}\n", platform.problem);
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}

}  // namespace hetsgd::test
