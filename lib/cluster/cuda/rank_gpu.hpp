// RankGpu: the GPU of one process of an mpi run, for exchanges with the GPUs of other processes.
//
// Two ways go from GPU to GPU without the host: NCCL's collectives (NcclRank), and an MPI library
// that takes pointers to GPU memory (ExchangeMemory). cluster/mpi knows nothing of CUDA but this
// header.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "cluster/collective_call.hpp"

namespace hetsgd::cuda {

// The facts that decide whether NCCL works between ranks. They travel between ranks as their bytes
// in memory.
struct RankGpu {
  // UUID of the GPU: the same in all processes, whatever the GPU's number there.
  std::array<char, 16> uuid{};
  // Version as a number, 22809 for 2.28.9; 0: there is no NCCL.
  int nccl_version = 0;
};
// The facts of GPU `gpu` of this process. Throws Error(device) if CUDA cannot say.
RankGpu rank_gpu(int gpu);

// Why NCCL cannot work between the GPUs of these ranks, by rank; empty: it can. The same on every
// rank that asks with the same facts.
std::string nccl_problem(std::span<const RankGpu> ranks);

using NcclId = std::array<char, 128>;
// The id of a new communicator: one rank makes it and gives it to all. Throws Error(device) if NCCL
// fails.
NcclId make_nccl_id();

// One rank of a communicator between processes. No call waits for another rank: the caller asks
// done() again and again. One thread at a time.
class NcclRank {
 public:
  virtual ~NcclRank() = default;
  // Starts this rank's share when done(). Memory as in GpuGroup::move, of its own GPU, and ready.
  virtual void start(const CollectiveCall& call, const void* in, void* out) = 0;
  // True: all ranks have joined, and what was started has ended. Throws Error(device) if it never
  // will.
  virtual bool done() = 0;
  // Stops its work: afterwards nothing of it runs on the GPU, and nothing can be started.
  virtual void abort() noexcept = 0;
};
// Joins the communicator as `rank` of `size`, on GPU `gpu`. Throws Error(device) if NCCL fails.
std::unique_ptr<NcclRank> join_nccl(const NcclId& id, int gpu, int rank, int size);

// The calling thread works with GPU `gpu` from here on. A thread must call this if an MPI library
// may copy GPU memory in it, even if it hands over none.
void make_current(int gpu);

// GPU memory that is handed to MPI, and the operations on it. It is not taken from the device's
// pool, because another process can open only memory of cudaMalloc. An MPI library opens it to copy
// from one process's GPU to another's. Not thread-safe.
class ExchangeMemory {
 public:
  virtual ~ExchangeMemory() = default;
  // Buffers that a call of Comm needs at the same time: for what it sends, what it changes, and
  // what other ranks bring.
  enum class Scratch { source, target, contributions };
  // Grows and never shrinks; contents are undefined after growth. Throws Error(device) if there is
  // no memory.
  virtual std::byte* reserve(Scratch which, std::size_t bytes) = 0;
  // Memory that stays until the process ends: the buffers of sends, which are used again and again.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  // Copies from host or GPU memory to host or GPU memory; returns when `to` is complete.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // out = in reduced in order, n elements each, in the GPU's memory; returns when it is complete.
  virtual void reduce(std::span<const void* const> in, void* out, std::size_t n, Element element,
                      ReduceOp op) = 0;
};
// The pointer is shared, so that its holder need not know the complete type.
std::shared_ptr<ExchangeMemory> make_exchange_memory(int gpu);

}  // namespace hetsgd::cuda
