// Reductions of the emulated NCCL, in rank order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "nccl_board.hpp"

namespace hetsgd_emulation {

inline std::size_t nccl_size(ncclDataType_t type) {  // 0: not emulated
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclDouble:
      return 8;
  }
  return 0;
}

template <class T>
void nccl_reduce_as(char* to, const std::vector<const char*>& from, std::size_t offset,
                    const Form& form) {
  auto* const total = reinterpret_cast<T*>(to);
  std::memcpy(to, from[0] + offset, form.count * sizeof(T));
  for (std::size_t r = 1; r < from.size(); ++r) {
    const auto* const x = reinterpret_cast<const T*>(from[r] + offset);
    for (std::size_t i = 0; i < form.count; ++i) {
      switch (form.op) {
        case ncclMax:
          total[i] = std::max(total[i], x[i]);
          break;
        case ncclMin:
          total[i] = std::min(total[i], x[i]);
          break;
        case ncclProd:
          total[i] = static_cast<T>(total[i] * x[i]);
          break;
        default:
          total[i] = static_cast<T>(total[i] + x[i]);
      }
    }
  }
  if (form.op != ncclAvg) return;
  for (std::size_t i = 0; i < form.count; ++i) {
    total[i] = static_cast<T>(total[i] / static_cast<T>(from.size()));
  }
}

// to = element by element over what the ranks sent, from byte `offset` on.
inline void nccl_reduce(char* to, const std::vector<const char*>& from, std::size_t offset,
                        const Form& form) {
  switch (form.type) {
    case ncclInt8:
      return nccl_reduce_as<std::int8_t>(to, from, offset, form);
    case ncclUint8:
      return nccl_reduce_as<std::uint8_t>(to, from, offset, form);
    case ncclInt32:
      return nccl_reduce_as<std::int32_t>(to, from, offset, form);
    case ncclUint32:
      return nccl_reduce_as<std::uint32_t>(to, from, offset, form);
    case ncclInt64:
      return nccl_reduce_as<std::int64_t>(to, from, offset, form);
    case ncclUint64:
      return nccl_reduce_as<std::uint64_t>(to, from, offset, form);
    case ncclFloat:
      return nccl_reduce_as<float>(to, from, offset, form);
    case ncclDouble:
      return nccl_reduce_as<double>(to, from, offset, form);
  }
}

}  // namespace hetsgd_emulation
