#include "cluster/threads/host_memory.hpp"

namespace hetsgd::threads {

bool is_device_memory(const void* memory, std::size_t bytes) {
  const Process& me = World::current();
  return bytes > 0 && me.device && !me.device->host_accessible(memory);
}

HostMemory::HostMemory(Use use, void* memory, std::size_t bytes)
    : memory_(static_cast<std::byte*>(memory)), host_(memory_), bytes_(bytes) {
  if (!is_device_memory(memory, bytes)) return;
  Process& me = World::current();
  me.ledger.count(GpuPath::host);
  host_ = me.staging[use == Use::read ? 0 : 1].reserve(bytes);
  if (use == Use::write) return;
  communicating([&] { me.device->download(host_, memory_, bytes_); });
}

// The device's memory may be used by another process' device next: a companion's.
void HostMemory::store(std::size_t begin, std::size_t end) {
  if (!staged() || begin == end) return;
  communicating([&] {
    Device& device = *World::current().device;
    device.upload(memory_ + begin, host_ + begin, end - begin);
    device.synchronize();
  });
}

}  // namespace hetsgd::threads
