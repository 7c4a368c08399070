// What truncation leaves of a normal law's variance.
#pragma once

namespace hetsgd {

// The variance of N(0, 1) truncated to [-2, 2]: 1 - 2 * 2 density(2) / (Phi(2) - Phi(-2)).
inline constexpr double kTruncatedVariance = 0.7737413035499232;

}  // namespace hetsgd
