// The names that nvcc predefines in a .cu file: keywords, indices, warp and block operations,
// mathematics. Included before each .cu file, whose launches ../rewrite_launches.py has turned into
// calls of hetsgd_emulation::launch.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"

#define __CUDACC__ 1
#define HETSGD_EMULATED_CUDA 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local  // a block runs on one thread from its begin to its end

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct dim3 {
  dim3(unsigned its_x = 1, unsigned its_y = 1, unsigned its_z = 1)  // NOLINT: as CUDA's converts
      : x(its_x), y(its_y), z(its_z) {}
  unsigned x, y, z;
};

namespace hetsgd_emulation {

struct Place {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
extern constinit thread_local Place* place;  // of the emulated thread that runs here

// The block's threads up to here, without those that have ended.
void synchronize_block();
// Lanes of `mask` meet; each brings 16 bytes and sees those of all 32, until it leaves.
using LaneValue = unsigned char[16];
const LaneValue* meet(unsigned mask, const LaneValue& mine);
void leave();
void* dynamic_shared_memory();

using Kernel = std::function<void()>;  // one thread's part
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, Kernel kernel);
// A library's kernel: runs once, when the stream comes to it.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> run);

// kernel<<<grid, block, shared_bytes, stream>>>(arguments...): their values are those of now.
template <class Function, class... Arguments>
void launch_with(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                 Function function, const Arguments&... arguments) {
  launch(grid, block, shared_bytes, stream,
         [function, copies = std::tuple<std::decay_t<Arguments>...>(arguments...)] {
           std::apply(function, copies);
         });
}

template <class T>
T from_lane(unsigned mask, T x, int lane) {
  static_assert(sizeof(T) <= sizeof(LaneValue) && std::is_trivially_copyable_v<T>);
  LaneValue mine = {};
  std::memcpy(mine, &x, sizeof x);
  std::memcpy(&x, meet(mask, mine)[lane], sizeof x);
  leave();
  return x;
}
inline int lane() {
  const Place& p = *place;
  return static_cast<int>(
      (p.thread.x + p.block_size.x * (p.thread.y + p.block_size.y * p.thread.z)) % 32);
}

}  // namespace hetsgd_emulation

#define threadIdx (::hetsgd_emulation::place->thread)
#define blockIdx (::hetsgd_emulation::place->block)
#define blockDim (::hetsgd_emulation::place->block_size)
#define gridDim (::hetsgd_emulation::place->grid_size)

inline void __syncthreads() { hetsgd_emulation::synchronize_block(); }
inline void __threadfence() {}

template <class T>
T __shfl_sync(unsigned mask, T x, int lane, int width = 32) {
  const int base = hetsgd_emulation::lane() / width * width;
  return hetsgd_emulation::from_lane(mask, x, base + lane % width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int distance, int width = 32) {
  const int mine = hetsgd_emulation::lane(), other = mine ^ distance;
  return hetsgd_emulation::from_lane(mask, x, other / width > mine / width ? mine : other);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const hetsgd_emulation::LaneValue mine = {static_cast<unsigned char>(predicate != 0)};
  const hetsgd_emulation::LaneValue* const all = hetsgd_emulation::meet(mask, mine);
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i) bits |= (mask >> i & 1U) != 0 && all[i][0] != 0 ? 1U << i : 0U;
  hetsgd_emulation::leave();
  return bits;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) { __ballot_sync(mask, 0); }
// Which other lanes are here is nobody's promise.
inline unsigned __activemask() { return 1U << hetsgd_emulation::lane(); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline float __fmul_rn(float x, float y) {
  const volatile float product = x * y;  // which the compiler fuses with nothing
  return product;
}
inline double __dmul_rn(double x, double y) {
  const volatile double product = x * y;
  return product;
}
using std::max;
using std::min;

// Blocks of a launch run one after another; those of other streams may run beside them.
template <class T>
requires std::is_integral_v<T> T atomicAdd(T* to, std::type_identity_t<T> x) {
  return __atomic_fetch_add(to, x, __ATOMIC_RELAXED);
}
template <class T>
requires std::is_floating_point_v<T> T atomicAdd(T* to, std::type_identity_t<T> x) {
  T old;
  __atomic_load(to, &old, __ATOMIC_RELAXED);
  for (T sum = old + x;
       !__atomic_compare_exchange(to, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
       sum = old + x) {
  }
  return old;
}
