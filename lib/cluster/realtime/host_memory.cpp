#include "cluster/realtime/host_memory.hpp"

namespace hetsgd::realtime {

// A service has no device, and what it handles is always host memory. Empty buffers belong to no
// side: their pointer may be null.
bool is_device_memory(const void* memory, std::size_t bytes) {
  const Process& me = World::current();
  return bytes > 0 && me.device && !me.device->host_accessible(memory);
}

bool copied_on_device(void* to, const void* from, std::size_t bytes) {
  if (bytes % sizeof(float) != 0) return false;  // devices copy floats
  if (!is_device_memory(to, bytes) || !is_device_memory(from, bytes)) return false;
  Device& device = *World::current().device;
  device.copy(bytes / sizeof(float), static_cast<const float*>(from), static_cast<float*>(to));
  device.synchronize();
  return true;
}

HostMemory::HostMemory(Use use, void* memory, std::size_t bytes, HostScratch* room)
    : HostView(World::current().device.get(), use, memory, bytes,
               room ? *room : World::current().staging[use == Use::read ? 0 : 1],
               [](Seconds took) { World::current().spend(&TimeBreakdown::communicate, took); }) {
  // Only a view that copies is a call through the host; one of memory that the host reaches is
  // none.
  if (copied()) World::current().breakdown.count(GpuPath::host);
}

}  // namespace hetsgd::realtime
