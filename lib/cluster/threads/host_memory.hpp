// Device memory as the host sees it during one call of the vocabulary.
//
// The cluster moves bytes between processes on the host. Where the host does not reach a process'
// device memory, the process copies it out before the call, or in after it: algorithms hand over
// their buffers, wherever these lie. On a CPU nothing is copied.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>

#include "cluster/threads/world.hpp"

namespace hetsgd::threads {

// Runs `copy`, whose time is communication of the calling process.
template <class Copy>
void communicating(Copy&& copy) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  copy();
  World::current().ledger.communicate += Clock::now() - begin;
}

// Copies `bytes` bytes, none of which overlap unless both sides are the same memory. With 0 bytes either
// pointer may be null, which std::memcpy does not allow.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// True if the calling process has a device and the host does not reach `memory`, of `bytes` > 0.
bool is_device_memory(const void* memory, std::size_t bytes);

class HostMemory {
 public:
  // What the host does with it. A process has room for one `read` beside one of the others.
  enum class Use { read, write, update };

  // Of the calling process. Returns when the host may read. The time of copying is communication.
  HostMemory(Use use, void* memory, std::size_t bytes);
  HostMemory(const void* memory, std::size_t bytes)
      : HostMemory(Use::read, const_cast<void*>(memory), bytes) {}

  std::byte* data() const { return host_; }
  // After write and update: returns when the device has what the host wrote at [begin, end).
  void store() { store(0, bytes_); }
  void store(std::size_t begin, std::size_t end);

 private:
  bool staged() const { return host_ != memory_; }

  std::byte* memory_;
  std::byte* host_;
  std::size_t bytes_;
};

}  // namespace hetsgd::threads
