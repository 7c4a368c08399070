// The codes of sixteen vectors at a time, one vector per lane, in the chosen set of CPU kernels
// (kernel_set.hpp). model/labels/label_hash.hpp defines the codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetsgd {

struct LaneCodes {
  static constexpr std::size_t kLanes = 16;

  // x[i * kLanes + lane] = from[lane * inputs + i] for lane < count <= kLanes. Others are left.
  void (*load)(std::size_t count, std::size_t inputs, const float* from, float* x);
  // The place of the largest element of each code, and this element. The elements of code c are in
  // x at place[c * width], ..., place[c * width + width - 1]. The first one wins a tie; NaN never
  // wins.
  void (*winners)(std::size_t codes, std::size_t width, const std::uint32_t* place, const float* x,
                  std::int32_t* code, float* best);
  // code[c] is 1 if the sum of sign times element is negative, else 0.
  void (*signs)(std::size_t codes, std::size_t width, const std::uint32_t* place, const float* sign,
                const float* x, std::int32_t* code);
  // bucket = sum over c < codes of code[c] stride^(codes - 1 - c).
  void (*buckets)(std::size_t codes, std::int32_t stride, const std::int32_t* code,
                  std::uint32_t* bucket);
};

// Error as cpu_kernels() of cpu_kernels.hpp.
const LaneCodes& lane_codes();

}  // namespace hetsgd
