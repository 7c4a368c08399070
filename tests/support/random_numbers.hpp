// Random numbers for tests.
#pragma once

#include <cstdint>

#include "core/random.hpp"

namespace hetsgd::test {

// Uniform in [-1, 1).
inline std::vector<float> uniform_numbers(std::size_t count, std::uint64_t stream) {
  RandomStream random(5, Purpose::test, stream);
  std::vector<float> x(count);
  for (float& each : x) each = static_cast<float>(random.uniform(-1, 1));
  return x;
}

// Standard normal.
inline std::vector<float> normal_numbers(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  std::vector<float> x(count);
  for (float& each : x) each = static_cast<float>(random.normal());
  return x;
}

}  // namespace hetsgd::test
