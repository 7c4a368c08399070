// Allocations and copies of the emulated runtime.
#include <cstdlib>
#include <cstring>
#include <map>

#include "emulation.hpp"

namespace hetsgd_emulation {

namespace {

std::map<const char*, std::size_t>& pinned() {  // guarded by `mutex`
  static auto* const all = new std::map<const char*, std::size_t>;
  return *all;
}

bool is_pinned_locked(const void* memory) {
  const auto* const p = static_cast<const char*>(memory);
  auto after = pinned().upper_bound(p);
  if (after == pinned().begin()) return false;
  --after;
  return p < after->first + after->second;
}

// Memory may come free while queued work is done.
void* take_with_patience(int gpu, bool pool, std::size_t bytes) {
  void* memory = take_memory(gpu, pool, bytes);
  if (memory == nullptr && bytes <= settings().memory_bytes) {
    Lock lock(mutex);
    wait_for_gpu(lock, gpu);
    lock.unlock();
    memory = take_memory(gpu, pool, bytes);
  }
  return memory;
}

bool fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

// Pageable memory goes through a staging buffer: the source is read now, and the receiver waits for
// the bytes.
cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  const Arenas target = arena_of(to), source = arena_of(from);
  Lock lock(mutex);
  const bool staged_source = source == 0 && !is_pinned_locked(from);
  const bool waits = target == 0 && !is_pinned_locked(to);
  std::shared_ptr<std::vector<char>> stage;
  if (staged_source) {
    const auto* const p = static_cast<const char*>(from);
    stage = std::make_shared<std::vector<char>>(p, p + bytes);
  }
  push(lock, *queue, {.touches = target | source, .run = [=] {
                        std::memcpy(to, stage ? stage->data() : from, bytes);
                      }});
  if (waits) wait_for(lock, *queue, queue->given);
  return cudaSuccess;
}

}  // namespace

bool is_pinned(const void* memory) {
  const Lock lock(mutex);
  return is_pinned_locked(memory);
}

}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;

struct CUmemPoolHandle_st {
  int gpu = 0;
};

extern "C" {

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  int gpu = 0;
  if (const cudaError_t status = cudaGetDevice(&gpu); status != cudaSuccess) return status;
  *free = free_bytes(gpu);
  *total = settings().memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = bytes == 0 ? nullptr : take_with_patience(current_gpu(), false, bytes);
  return report(bytes > 0 && *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const Arenas arena = arena_of(memory);
  if (arena == 0) return report(cudaErrorInvalidValue);
  Lock lock(mutex);
  wait_for_gpu(lock, gpu_of(arena));
  lock.unlock();
  give_memory(memory);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  *memory = bytes == 0 ? nullptr : take_with_patience(queue->gpu, true, bytes);
  return report(bytes > 0 && *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  if (memory == nullptr) return cudaSuccess;
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  Lock lock(mutex);
  push(lock, *queue, {.run = [=] { give_memory(memory); }});
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  int gpu = 0;
  if (const cudaError_t status = cudaGetDevice(&gpu); status != cudaSuccess) return status;
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*memory == nullptr) return report(cudaErrorMemoryAllocation);
  std::memset(*memory, 0xFF, bytes);
  const Lock lock(mutex);
  pinned()[static_cast<const char*>(*memory)] = bytes;
  return cudaSuccess;
}
// Waits for the GPUs, as copies may still use the memory.
cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  Lock lock(mutex);
  for (int gpu = 0; gpu < settings().gpus; ++gpu) wait_for_gpu(lock, gpu);
  if (pinned().erase(static_cast<const char*>(memory)) == 0) return report(cudaErrorInvalidValue);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const Arenas arena = arena_of(memory);
  const bool host = arena == 0 && is_pinned(memory);
  auto* const p = const_cast<void*>(memory);
  *attributes = {.type = arena != 0 ? cudaMemoryTypeDevice
                         : host     ? cudaMemoryTypeHost
                                    : cudaMemoryTypeUnregistered,
                 .device = arena != 0 ? gpu_of(arena)
                           : host     ? current_gpu()
                                      : -2,
                 .devicePointer = arena != 0 || host ? p : nullptr,
                 .hostPointer = arena != 0 ? nullptr : p};
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  static CUmemPoolHandle_st pools[kMostGpus];
  if (device < 0 || device >= settings().gpus) return report(cudaErrorInvalidDevice);
  *pool = &pools[device];
  (*pool)->gpu = device;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void*) {
  return report(pool != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}
// The pool reserves what is used, and no more.
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (attribute != cudaMemPoolAttrReservedMemCurrent &&
      attribute != cudaMemPoolAttrUsedMemCurrent) {
    return report(cudaErrorInvalidValue);
  }
  *static_cast<std::uint64_t*>(value) = pool_bytes(pool->gpu);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access,
                                 std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const int gpu = access[i].location.id;
    if (access[i].location.type != cudaMemLocationTypeDevice || gpu < 0 || gpu >= settings().gpus) {
      return report(cudaErrorInvalidValue);
    }
    if (gpu == pool->gpu) continue;
    if (!settings().peers) return report(cudaErrorInvalidDevice);
    set_peer_pool(gpu, pool->gpu, access[i].flags == cudaMemAccessFlagsProtReadWrite);
  }
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!fits(kind, arena_of(to) != 0, arena_of(from) != 0)) return report(cudaErrorInvalidValue);
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const Arenas target = arena_of(to), source = arena_of(from);
  if (target == 0 || source == 0 || gpu_of(target) != to_device || gpu_of(source) != from_device) {
    return report(cudaErrorInvalidValue);
  }
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  if (bytes == 0) return cudaSuccess;
  if (arena_of(memory) == 0) return report(cudaErrorInvalidValue);
  Lock lock(mutex);
  push(lock, *queue,
       {.touches = arena_of(memory), .run = [=] { std::memset(memory, value, bytes); }});
  return cudaSuccess;
}

}  // extern "C"
