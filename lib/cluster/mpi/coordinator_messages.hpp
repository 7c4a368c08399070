// What coordinators say to each other. Part of coordinator.
#pragma once

#include <cstring>
#include <span>

#include "cluster/mpi/coordinator.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

// Kinds of message.
enum Kind : int {
  kCome = -1,
  kMet = -2,
  kFailed = -3,
  kFailure = -4,
  kLeft = -5,
  kAskFence = -6,
  kStop = -7,
  kStopped = -8,
  kGo = -9,
  kDone = -10,
  kResume = -11,
  kAskGroup = -12,
  kGroup = -13,
  kAgree = -14,
  kAgreed = -15,
  kBlocked = -16,
  kAskService = -17,
  kServiceWanted = -18,
  kRecipe = -19,
};

template <class T>
T read(std::span<const std::byte> bytes) {
  T value;
  HETSGD_CHECK_GE(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace hetsgd::mpi
