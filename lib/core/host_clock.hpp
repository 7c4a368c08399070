// The host's clock, for everything off the training clock: loading, measuring, recording, limits.
// It never enters a simulated result.
#pragma once

#include <chrono>

namespace hetsgd {

using HostClock = std::chrono::steady_clock;

// Wall-clock seconds of this host from `start` to now.
inline double seconds_since(HostClock::time_point start) {
  return std::chrono::duration<double>(HostClock::now() - start).count();
}

}  // namespace hetsgd
