// One round of a loop that spins: it leaves the core's shared units to the other hardware thread,
// and keeps the loop from flooding the memory system with loads.
#pragma once

#include <thread>

namespace hetsgd::realtime {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace hetsgd::realtime
