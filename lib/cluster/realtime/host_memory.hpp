// Device memory as the host sees it during one call of the vocabulary.
//
// The cluster moves bytes between processes on the host. Where the host does not reach a process'
// device memory, the process copies it out before the call, or in after it: algorithms hand over
// their buffers, wherever these lie. On a CPU nothing is copied.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>

#include "cluster/realtime/world.hpp"
#include "cluster/service.hpp"
#include "linalg/host_view.hpp"

namespace hetsgd::realtime {

// Runs `copy`, whose time is communication of the calling process. The time is that of the host,
// not of the training clock: a process that copies is at large, so no pause can fall into the copy.
template <class Copy>
void communicating(Copy&& copy) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  copy();
  World::current().spend(&TimeBreakdown::communicate, Clock::now() - begin);
}

// Copies `bytes` bytes. The two sides are the same memory or do not overlap. With 0 bytes either
// pointer may be null, which std::memcpy does not allow.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// True if the calling process has a device and the host does not reach `memory`, of `bytes` > 0.
bool is_device_memory(const void* memory, std::size_t bytes);
// Where both are memory of the calling process's device, copies there. Returns true when the data
// have arrived, for other devices of the GPU, too. Else false, and nothing is copied.
bool copied_on_device(void* to, const void* from, std::size_t bytes);

// A view by the calling process's device, counted in its breakdown: the time of copying is
// communication.
//
// Its copy lies in Process::staging, which is reused by the next call: element 0 for `read`, 1 for
// `write` and `update`. So a process may have one view of each sort at a time, one for what it
// sends and one for what it receives. The views lie on the stack of the call, and their destruction
// stores nothing: after `write` and `update` the call itself calls store(), when the data are
// there. A call that is unwound leaves the device memory as it was.
class HostMemory : public HostView {
 public:
  // room: in place of the staging, for a view that outlives a call of the vocabulary; it must live
  // as long as the view. Throws what the device's copy throws.
  HostMemory(Use use, void* memory, std::size_t bytes, HostScratch* room = nullptr);
  HostMemory(const void* memory, std::size_t bytes)
      : HostMemory(Use::read, const_cast<void*>(memory), bytes) {}
};

// A call of a service with its payloads on the host. For a call that outlives the one of the
// vocabulary that makes it, `room` has scratch memory for both.
struct HostedCall {
  explicit HostedCall(const ServiceCall& call, std::array<HostScratch, 2>* room = nullptr)
      : source(HostMemory::Use::read, const_cast<float*>(call.payload.data()),
               call.payload.size_bytes(), room ? &(*room)[0] : nullptr),
        target(HostMemory::Use::write, call.reply_payload.data(), call.reply_payload.size_bytes(),
               room ? &(*room)[1] : nullptr),
        on_host{call.request,
                {reinterpret_cast<const float*>(source.data()), call.payload.size()},
                call.kind,
                call.reply,
                {reinterpret_cast<float*>(target.data()), call.reply_payload.size()}} {}

  HostMemory source;
  HostMemory target;  // store() it when the answer is there
  ServiceCall on_host;
};

}  // namespace hetsgd::realtime
