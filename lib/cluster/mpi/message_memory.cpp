#include "cluster/mpi/message_memory.hpp"

#include <cstring>

#include "cluster/reduce.hpp"

namespace hetsgd::mpi {

namespace {

// Below this the latencies of copies on the GPU cost more than the way through the host.
constexpr std::size_t kWorthTheGpu = std::size_t{16} << 10;

}  // namespace

cuda::ExchangeMemory* exchange_for(const void* memory, std::size_t bytes) {
  Process& me = World::current();
  if (!me.exchange || bytes < kWorthTheGpu || !is_device_memory(memory, bytes)) {
    return nullptr;
  }
  // The device may still write the memory, and the exchange's stream does not wait for the
  // device's.
  me.device->synchronize();
  me.breakdown.count(GpuPath::mpi);
  return me.exchange.get();
}

MessageMemory::MessageMemory(Use use, void* memory, std::size_t bytes)
    : memory_(static_cast<std::byte*>(memory)), bytes_(bytes), gpu_(exchange_for(memory, bytes)) {
  if (!gpu_) {
    data_ = host_.emplace(use, memory, bytes).data();
    return;
  }
  // One room for what is read and one for what is written, so that a call may have both.
  data_ = gpu_->reserve(use == Use::read ? cuda::ExchangeMemory::Scratch::source
                                         : cuda::ExchangeMemory::Scratch::target,
                        bytes);
  // Memory that is only written need not be copied in: every byte of it comes from others.
  if (use != Use::write) communicating([&] { gpu_->copy(data_, memory_, bytes_); });
}

void MessageMemory::store(std::size_t begin, std::size_t end) {
  if (!gpu_) return host_->store(begin, end);
  if (begin == end) return;
  communicating([&] { gpu_->copy(memory_ + begin, data_ + begin, end - begin); });
}

void MessageMemory::put(std::size_t begin, const MessageMemory& other, std::size_t from,
                        std::size_t bytes) {
  if (bytes == 0) return;
  // One side may be host memory (small) and the other the GPU's (large): the GPU copies either way.
  cuda::ExchangeMemory* const gpu = gpu_ ? gpu_ : other.gpu_;
  if (gpu) return communicating([&] { gpu->copy(data_ + begin, other.data_ + from, bytes); });
  std::memmove(data_ + begin, other.data_ + from, bytes);
}

std::byte* MessageMemory::contributions(HostScratch& host, std::size_t bytes) const {
  if (!gpu_) return host.reserve(bytes);
  return gpu_->reserve(cuda::ExchangeMemory::Scratch::contributions, bytes);
}

void MessageMemory::reduce(std::span<const void* const> in, void* out, std::size_t n,
                           Element element, ReduceOp op) const {
  if (!gpu_) return reduce_in_rank_order(in, {&out, 1}, 0, n, element, op);
  gpu_->reduce(in, out, n, element, op);
}

}  // namespace hetsgd::mpi
