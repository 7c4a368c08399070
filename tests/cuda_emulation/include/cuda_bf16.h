// bfloat16: the upper half of a float, rounded to the nearest, ties to even.
#pragma once

#include "cuda_kernel_language.h"

struct __nv_bfloat16 {
  unsigned short bits;
};
inline __nv_bfloat16 __float2bfloat16(float x) {
  const unsigned u = __float_as_uint(x);
  if (std::isnan(x)) return {0x7FFF};
  return {static_cast<unsigned short>((u + 0x7FFFU + (u >> 16 & 1U)) >> 16)};
}
inline float __bfloat162float(__nv_bfloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
