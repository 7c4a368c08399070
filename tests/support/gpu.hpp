// Tests that need a GPU: their program says in one line that there is none, and is skipped (gpu_main.cpp).
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd::test {

inline constexpr int kSkipped = 77;  // as CTest is told

}  // namespace hetsgd::test
