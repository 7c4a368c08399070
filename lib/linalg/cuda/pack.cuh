// 16 bytes of an array at once: a thread's widest access to memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetsgd::cuda {

template <class Real, int V>
struct alignas(V * sizeof(Real)) Pack {
  Real at[V];
};

template <class Real>
inline constexpr int kPackOf = 16 / sizeof(Real);

template <class Real, int V>
__device__ Pack<Real, V> load_pack(const Real* from) {
  return *reinterpret_cast<const Pack<Real, V>*>(from);
}
template <class Real, int V>
__device__ void store_pack(Real* to, const Pack<Real, V>& pack) {
  *reinterpret_cast<Pack<Real, V>*>(to) = pack;
}

// Packs of kPackOf numbers may begin there.
inline bool is_aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

}  // namespace hetsgd::cuda
