// GpuRanks: what the ranks of a run know of each other's GPUs, and NCCL between them.
//
//   a group's first large collective with GPU memory alone, on every rank of the group:
//     tries_nccl()       this rank's option and GPU allow it     (travels with the call)
//     mine()             its GPU and NCCL's version              (gathered from all)
//     can_use_nccl(all)  the same answer on every rank, from the same facts
//     join(id)           a communicator that lives until close()
//
// NCCL's calls never block here: their caller asks again and again (await), so that a run which
// fails or pauses is noticed meanwhile.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/cuda/rank_gpu.hpp"
#include "cluster/realtime/waiting.hpp"

namespace hetsgd::mpi {

using namespace realtime;

class GpuRanks {
 public:
  // gpu: this rank's GPU; -1: it has none. method: ClusterOptions::all_reduce.
  GpuRanks(AllReduce method, int gpu) : method_(method), gpu_(gpu) {}

  // True: it is worth asking the other ranks of a group. Any thread.
  bool tries_nccl() const {
    return gpu_ >= 0 && (method_ == AllReduce::automatic || method_ == AllReduce::nccl);
  }
  // Throws Error(device) if the GPU cannot be asked.
  cuda::RankGpu mine() const { return cuda::rank_gpu(gpu_); }
  // Whether NCCL can work between `ranks`, by rank in the group. Throws Error(device) if it cannot
  // and nothing else was asked for (--all-reduce nccl).
  bool can_use_nccl(std::span<const cuda::RankGpu> ranks) const;
  // Collective over the group, with the same id. Returns when all have joined. The communicator
  // belongs to this object and lives until close(). Unwinds if the run is aborted meanwhile. Throws
  // Error(device) if NCCL fails.
  cuda::NcclRank& join(World& world, const cuda::NcclId& id, int rank, int size);
  // Destroys the communicators, when no rank uses one any more or the run has failed, and no
  // process of this rank is inside of one.
  void close() { joined_.clear(); }

 private:
  const AllReduce method_;
  const int gpu_;
  // Guards the list while processes of this rank join for several groups at once.
  std::mutex mutex_;
  std::vector<std::unique_ptr<cuda::NcclRank>> joined_;
};

// Returns when what was started on `nccl` has ended; what: for reports. The time is communication
// of the calling process. If the run is aborted, the communicator is aborted too, and the caller
// unwinds. Throws Error(device) if NCCL fails.
void await(World& world, cuda::NcclRank& nccl, const char* what);

}  // namespace hetsgd::mpi
