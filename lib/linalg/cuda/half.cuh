// FP16 numbers in kernels, as bits.
#pragma once

#include <cstdint>

#ifdef HETSGD_EMULATED_CUDA
#include <half_numbers.hpp>  // tests/cuda_emulation
#else
#include <cuda_fp16.h>
#endif

namespace hetsgd::cuda {

// hi + lo = x to 22 significant bits; the bits of two FP16 numbers.
struct SplitNumber {
  std::uint16_t hi, lo;
};

#ifdef HETSGD_EMULATED_CUDA
inline SplitNumber split_number(float x) {
  const std::uint16_t hi = ::hetsgd_emulation::to_fp16(x);
  return {hi, ::hetsgd_emulation::to_fp16(x - ::hetsgd_emulation::from_fp16(hi))};
}
#else
__device__ __forceinline__ SplitNumber split_number(float x) {
  const __half hi = __float2half_rn(x);
  return {__half_as_ushort(hi), __half_as_ushort(__float2half_rn(x - __half2float(hi)))};
}
#endif

}  // namespace hetsgd::cuda
