// Factors as tensor cores see them. Part of the emulated libraries.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace hetsgd_emulation {

constexpr int kFloatBits = 23, kTf32Bits = 10, kFp16Bits = 10, kBf16Bits = 7;  // mantissas

// To the nearest number with `bits` bits of mantissa, ties to even.
inline double rounded(float x, int bits) {
  if (bits >= kFloatBits || !std::isfinite(x)) return x;
  std::uint32_t u = 0;
  std::memcpy(&u, &x, sizeof u);
  const int drop = kFloatBits - bits;
  u += (std::uint32_t{1} << (drop - 1)) - 1 + (u >> drop & 1U);
  u &= ~((std::uint32_t{1} << drop) - 1);
  std::memcpy(&x, &u, sizeof x);
  return x;
}
inline double rounded(double x, int) { return x; }

}  // namespace hetsgd_emulation
