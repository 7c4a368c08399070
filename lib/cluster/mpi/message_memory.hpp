// Memory of a process as MPI reaches it during one call of the vocabulary.
//
// Where the MPI library takes pointers to GPU memory, a large buffer on the process' GPU goes into
// memory of the same GPU that other processes can open (cuda/rank_gpu.hpp: the copy runs at the
// GPU's own bandwidth, a tenth or less of the time that the link takes), and is reduced there.
// Everything else is HostMemory.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "cluster/collective_call.hpp"
#include "cluster/cuda/rank_gpu.hpp"
#include "cluster/threads/host_memory.hpp"

namespace hetsgd::mpi {

// The calling process' way to hand `memory` of its GPU to MPI, after waiting until its content is
// complete and counting it in the ledger; null: `memory` goes through the host.
cuda::ExchangeMemory* exchange_for(const void* memory, std::size_t bytes);

class MessageMemory {
 public:
  using Use = threads::HostMemory::Use;

  // As HostMemory.
  MessageMemory(Use use, void* memory, std::size_t bytes);
  MessageMemory(const void* memory, std::size_t bytes)
      : MessageMemory(Use::read, const_cast<void*>(memory), bytes) {}

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // data() is memory of the GPU: the host must not touch it.
  cuda::ExchangeMemory* gpu() const { return gpu_; }
  void store() { store(0, bytes_); }
  void store(std::size_t begin, std::size_t end);

  // data()[begin...] <- other.data().
  void put(std::size_t begin, const MessageMemory& other);
  // Room where data() lies, for what others bring; `host` where that is the host.
  std::byte* contributions(threads::Room& host, std::size_t bytes) const;
  // out = in reduced in order; all of them lie where data() does.
  void reduce(std::span<const void* const> in, void* out, std::size_t n, Element element,
              ReduceOp op) const;

 private:
  std::byte* const memory_;
  const std::size_t bytes_;
  cuda::ExchangeMemory* const gpu_;
  std::optional<threads::HostMemory> host_;
  std::byte* data_;
};

}  // namespace hetsgd::mpi
