// What the ranks' drivers say to each other, as bytes. Part of rank_driver.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "core/error.hpp"

namespace hetsgd::rank_messages {

// Kinds of control messages, from RankDriver's first one on.
enum Message : int { kReport, kState, kModel, kMeasured, kAskReplica, kReplica, kMessages };

// What stands before the numbers of a kModel message.
struct ModelHeader {
  double time_s = 0;
  std::int32_t due = 0;
  std::int32_t reserved = 0;
};

template <class T>
T unpack(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  HETSGD_CHECK_GE(bytes.size(), sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <class T>
std::span<const std::byte> pack(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

inline std::vector<float> numbers(std::span<const std::byte> bytes) {
  std::vector<float> all(bytes.size() / sizeof(float));
  std::memcpy(all.data(), bytes.data(), all.size() * sizeof(float));
  return all;
}

}  // namespace hetsgd::rank_messages
