// MessageMemory: memory of a process as MPI reaches it during one call of the vocabulary.
//
//    the caller's memory        data()                              copies
//    host                       the memory itself                   none
//    GPU, small, or the         a copy in host memory               GPU to host, and back
//      library takes no
//      pointers to it
//    GPU, large                 a copy in memory of the same GPU    within the GPU, and back
//                                 that other processes can open
//
// The third way needs an MPI library that takes pointers to GPU memory. The copy within the GPU
// runs at the GPU's own bandwidth, which is many times that of the link between GPUs. Sums are made
// there too. cuda/rank_gpu.hpp says why the caller's own memory will not do. Everything else is
// HostMemory.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "cluster/collective_call.hpp"
#include "cluster/cuda/rank_gpu.hpp"
#include "cluster/realtime/host_memory.hpp"

namespace hetsgd::mpi {

using namespace realtime;

// Hands `memory` of the calling process's GPU to MPI; null: `memory` goes through the host. If it
// is not null, the device has finished with the memory on return, and the breakdown counts one call
// of GpuPath::mpi. The process owns the result.
cuda::ExchangeMemory* exchange_for(const void* memory, std::size_t bytes);

// Lives during one call, on the stack of its process. A process may have one that reads and one
// that writes or updates at a time, because each kind has one scratch buffer. Copies count as
// communication. Throws Error(device) if there is no memory or a copy fails.
class MessageMemory {
 public:
  using Use = HostMemory::Use;

  // The uses are those of HostMemory: read copies in, write copies out by store(), update does
  // both.
  MessageMemory(Use use, void* memory, std::size_t bytes);
  MessageMemory(const void* memory, std::size_t bytes)
      : MessageMemory(Use::read, const_cast<void*>(memory), bytes) {}

  // The memory that MPI sends from and receives into.
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // Not null: data() is memory of the GPU, and the host must not touch it.
  cuda::ExchangeMemory* gpu() const { return gpu_; }
  // After write and update: the caller's memory has what lies at bytes [begin, end) of data().
  void store() { store(0, bytes_); }
  void store(std::size_t begin, std::size_t end);

  // data()[begin...] <- other.data(), in whichever memories they are.
  void put(std::size_t begin, const MessageMemory& other) { put(begin, other, 0, other.size()); }
  // ... <- other.data()[from, from + bytes).
  void put(std::size_t begin, const MessageMemory& other, std::size_t from, std::size_t bytes);
  // Room in the memory where data() lies, for what other ranks bring; that of `host` where it is
  // the host. Contents are undefined; valid until the next call.
  std::byte* contributions(HostScratch& host, std::size_t bytes) const;
  // out = in reduced in order (cluster/reduce.hpp), n elements each; all of them lie where data()
  // does.
  void reduce(std::span<const void* const> in, void* out, std::size_t n, Element element,
              ReduceOp op) const;

 private:
  // The caller's memory, and how long it is.
  std::byte* const memory_;
  const std::size_t bytes_;
  // Null: host_ has the view, else it is empty.
  cuda::ExchangeMemory* const gpu_;
  std::optional<HostMemory> host_;
  std::byte* data_;
};

}  // namespace hetsgd::mpi
