// Reductions of the emulated NCCL, in rank order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "emulation.hpp"
#include "nccl_board.hpp"

namespace hetsgd_emulation {

inline std::size_t nccl_size(ncclDataType_t type) {
  return type == ncclUint8 ? 1 : type == ncclFloat32 ? 4 : 8;
}

template <class T>
void nccl_reduce_as(char* to, const std::vector<const char*>& from, std::size_t offset,
                    const Form& form) {
  auto* const total = reinterpret_cast<T*>(to);
  std::memcpy(to, from[0] + offset, form.count * sizeof(T));
  for (std::size_t r = 1; r < from.size(); ++r) {
    const auto* const x = reinterpret_cast<const T*>(from[r] + offset);
    for (std::size_t i = 0; i < form.count; ++i) {
      total[i] = form.op == ncclMax   ? std::max(total[i], x[i])
                 : form.op == ncclMin ? std::min(total[i], x[i])
                                      : total[i] + x[i];
    }
  }
}

// to = element by element over what the ranks sent, from byte `offset` on.
inline void nccl_reduce(char* to, const std::vector<const char*>& from, std::size_t offset,
                        const Form& form) {
  switch (form.type) {
    case ncclUint8:
      misuse("NCCL: a reduction of bytes is not emulated");
    case ncclInt64:
      return nccl_reduce_as<std::int64_t>(to, from, offset, form);
    case ncclFloat32:
      return nccl_reduce_as<float>(to, from, offset, form);
    case ncclFloat64:
      return nccl_reduce_as<double>(to, from, offset, form);
  }
}

}  // namespace hetsgd_emulation
