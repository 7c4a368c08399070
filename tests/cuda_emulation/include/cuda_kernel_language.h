// What nvcc gives a .cu file without being asked: keywords, indices, warp and block operations,
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
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local  // a block runs on one thread from its begin to its end
#define __constant__ static

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
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
void launch(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            Kernel kernel);
// A library's kernel: runs once, when the stream comes to it.
cudaError_t enqueue(cudaStream_t stream, const char* name, std::function<void()> run);

// kernel<<<grid, block, shared_bytes, stream>>>(arguments...): their values are those of now.
template <class Function, class... Arguments>
void launch_with(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
                 cudaStream_t stream, Function function, const Arguments&... arguments) {
  launch(name, grid, block, shared_bytes, stream,
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
inline constexpr int warpSize = 32;

inline void __syncthreads() { hetsgd_emulation::synchronize_block(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) { hetsgd_emulation::from_lane(mask, '\0', 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}

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
template <class T>
T __shfl_down_sync(unsigned mask, T x, int distance, int width = 32) {
  const int mine = hetsgd_emulation::lane(), other = mine + distance;
  return hetsgd_emulation::from_lane(mask, x, mine % width + distance < width ? other : mine);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, int distance, int width = 32) {
  const int mine = hetsgd_emulation::lane(), other = mine - distance;
  return hetsgd_emulation::from_lane(mask, x, mine % width >= distance ? other : mine);
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
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, T x) {
  *p = x;
}
template <class To, class From>
To hetsgd_emulated_bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
inline unsigned __float_as_uint(float x) { return hetsgd_emulated_bits<unsigned>(x); }
inline int __float_as_int(float x) { return hetsgd_emulated_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return hetsgd_emulated_bits<float>(x); }
inline float __int_as_float(int x) { return hetsgd_emulated_bits<float>(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fmul_rn(float x, float y) {
  const volatile float product = x * y;  // which the compiler fuses with nothing
  return product;
}
inline double __dmul_rn(double x, double y) {
  const volatile double product = x * y;
  return product;
}
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
using std::max;
using std::min;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

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
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> next) {
  __atomic_compare_exchange_n(at, &expected, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T>
T atomicMax(T* to, std::type_identity_t<T> x) {
  T old = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (old < x &&
         !__atomic_compare_exchange_n(to, &old, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
