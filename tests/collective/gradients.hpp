// Vectors to combine by Adasum.
#pragma once

#include "support/random_numbers.hpp"

namespace hetsgd {

// With common parts, so that they are neither parallel nor orthogonal.
inline std::vector<std::vector<float>> inputs(int workers, std::size_t n) {
  std::vector<std::vector<float>> g;
  for (int r = 0; r < workers; ++r) {
    g.push_back(test::uniform_numbers(n, static_cast<std::uint64_t>(r)));
    for (std::size_t i = 0; i < n; ++i) g.back()[i] += static_cast<float>(i % 3) * 0.5F;
  }
  return g;
}

}  // namespace hetsgd
