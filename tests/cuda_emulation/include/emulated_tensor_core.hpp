// The functions of linalg/cuda/tensor_core.cuh in a kernel that runs on a CPU: the same names and
// meaning. Behind them are the units of ../tensor_core.cpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda_kernel_language.h"
#include "tensor_core_units.hpp"

namespace hetsgd::cuda {

struct Half16 {
  static constexpr bool kFp16 = true;
};
struct Brain16 {
  static constexpr bool kFp16 = false;
};

template <class Format>
std::uint32_t round_pair(float x, float y) {
  const auto rounded = Format::kFp16 ? ::hetsgd_emulation::to_fp16 : ::hetsgd_emulation::to_bf16;
  return rounded(x) | std::uint32_t{rounded(y)} << 16;
}

inline float power_of_two(float x) {
  const float y = std::exp2(x);
  if (std::isnan(y)) return std::numeric_limits<float>::quiet_NaN();  // the GPU's has no sign
  return y < std::numeric_limits<float>::min() ? 0.0F : y;
}

inline std::uint32_t shared_address(const void* memory) {
  return ::hetsgd_emulation::shared_address(memory);
}

using Barrier = std::uint64_t;

inline void start_barrier(Barrier* barrier, unsigned count) {
  ::hetsgd_emulation::start_barrier(barrier, count);
}
inline void publish_barriers() {}
inline void arrive(Barrier* barrier) { ::hetsgd_emulation::arrive(barrier, 0); }
inline void arrive_with_bytes(Barrier* barrier, unsigned bytes) {
  ::hetsgd_emulation::arrive(barrier, bytes);
}
inline void await(Barrier* barrier, unsigned parity) { ::hetsgd_emulation::await(barrier, parity); }

inline void give_turn(unsigned barrier) {
  ::hetsgd_emulation::meet_at(barrier, 2 * kWarpgroup, false);
}
inline void await_turn(unsigned barrier) {
  ::hetsgd_emulation::meet_at(barrier, 2 * kWarpgroup, true);
}
inline void meet_warpgroup(unsigned barrier) {
  ::hetsgd_emulation::meet_at(barrier, kWarpgroup, true);
}

inline void copy_to_shared(void* shared, const void* global, unsigned bytes, Barrier* barrier) {
  ::hetsgd_emulation::copy_to_shared(shared, global, bytes, barrier);
}
inline void publish_to_products() {}

template <int kRegisters>
void take_registers() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0);
}
template <int kRegisters>
void give_registers() {
  take_registers<kRegisters>();
}

inline std::uint32_t tile_operand(const void* tile, unsigned rows) {
  return ::hetsgd_emulation::tile_operand(tile, rows * kHalfRowBytes);
}
inline std::uint32_t at_columns(std::uint32_t tile, unsigned rows, unsigned step) {
  return tile + ((step / 4 * rows * kHalfRowBytes + step % 4 * 32) >> 4);
}
inline std::uint32_t at_rows(std::uint32_t tile, unsigned step) {
  return tile + (step * 16 * kHalfRowBytes >> 4);
}
inline unsigned warpgroup() { return __shfl_sync(0xFFFFFFFFU, threadIdx.x / kWarpgroup, 0); }

inline void begin_products() { ::hetsgd_emulation::begin_products(); }
inline void end_products() { ::hetsgd_emulation::end_products(); }
template <int kPending = 0>
void await_products() {
  ::hetsgd_emulation::await_products(kPending);
}

template <class Format>
void multiply_columns(Format, float (&D)[48], std::uint32_t A, std::uint32_t B, bool add) {
  ::hetsgd_emulation::add_product({Format::kFp16, false, 96, D, nullptr, A, B, add});
}
template <class Format>
void multiply_columns(Format, float (&D)[32], const std::uint32_t* A, std::uint32_t B, bool add) {
  ::hetsgd_emulation::add_product({Format::kFp16, false, 64, D, A, 0, B, add});
}
template <class Format>
void multiply_rows(Format, float (&D)[64], const std::uint32_t* A, std::uint32_t B) {
  ::hetsgd_emulation::add_product({Format::kFp16, true, 128, D, A, 0, B, true});
}

}  // namespace hetsgd::cuda
