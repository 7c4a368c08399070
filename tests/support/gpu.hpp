// Tests that need a GPU: without one their program says so in one line and is skipped
// (gpu_main.cpp).
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd::test {

inline constexpr int kSkipped = 77;  // as CTest is told

}  // namespace hetsgd::test
