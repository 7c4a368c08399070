// The host's clock, for what is off the training clock: loading, measuring, recording, limits. It never
// enters a simulated result.
#pragma once

#include <chrono>

namespace hetsgd {

using HostClock = std::chrono::steady_clock;

// Seconds of host time from `start` to now.
inline double seconds_since(HostClock::time_point start) {
  return std::chrono::duration<double>(HostClock::now() - start).count();
}

}  // namespace hetsgd
