// Reductions of the emulated NCCL, in rank order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "nccl.h"

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
std::vector<char> nccl_reduce_as(const std::vector<const char*>& from, std::size_t offset,
                                 std::size_t count, ncclRedOp_t op) {
  std::vector<char> result(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    T total{};
    for (std::size_t r = 0; r < from.size(); ++r) {
      T x;
      std::memcpy(&x, from[r] + offset + i * sizeof(T), sizeof x);
      if (r == 0) {
        total = x;
      } else if (op == ncclMax || op == ncclMin) {
        total = op == ncclMax ? std::max(total, x) : std::min(total, x);
      } else {
        total = static_cast<T>(op == ncclProd ? total * x : total + x);
      }
    }
    if (op == ncclAvg) total = static_cast<T>(total / static_cast<T>(from.size()));
    std::memcpy(result.data() + i * sizeof(T), &total, sizeof total);
  }
  return result;
}

// Element by element over what the ranks sent, from byte `offset` on.
inline std::vector<char> nccl_reduce(const std::vector<const char*>& from, std::size_t offset,
                                     std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return nccl_reduce_as<std::int8_t>(from, offset, count, op);
    case ncclUint8:
      return nccl_reduce_as<std::uint8_t>(from, offset, count, op);
    case ncclInt32:
      return nccl_reduce_as<std::int32_t>(from, offset, count, op);
    case ncclUint32:
      return nccl_reduce_as<std::uint32_t>(from, offset, count, op);
    case ncclInt64:
      return nccl_reduce_as<std::int64_t>(from, offset, count, op);
    case ncclUint64:
      return nccl_reduce_as<std::uint64_t>(from, offset, count, op);
    case ncclFloat:
      return nccl_reduce_as<float>(from, offset, count, op);
    case ncclDouble:
      return nccl_reduce_as<double>(from, offset, count, op);
  }
  return {};
}

}  // namespace hetsgd_emulation
