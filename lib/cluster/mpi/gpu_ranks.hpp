// What the ranks of a run know of each other's GPUs, and NCCL between them.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/cuda/rank_gpu.hpp"
#include "cluster/threads/world.hpp"

namespace hetsgd::mpi {

class GpuRanks {
 public:
  // gpu: of this rank, -1: none. method: ClusterOptions::all_reduce.
  GpuRanks(AllReduce method, int gpu) : method_(method), gpu_(gpu) {}

  // Worth asking the others of a group.
  bool tries_nccl() const {
    return gpu_ >= 0 && (method_ == AllReduce::automatic || method_ == AllReduce::nccl);
  }
  cuda::RankGpu mine() const { return cuda::rank_gpu(gpu_); }
  // Errors (device): NCCL cannot work between `ranks`, and nothing else was asked for. False: it
  // cannot.
  bool can_use_nccl(std::span<const cuda::RankGpu> ranks) const;
  // The communicator lives until close(). Returns when all have joined.
  cuda::NcclRank& join(threads::World& world, const cuda::NcclId& id, int rank, int size);
  // When no rank uses a communicator any more, or the run has failed. From any thread.
  void close() { joined_.clear(); }

 private:
  const AllReduce method_;
  const int gpu_;
  std::mutex mutex_;  // guards the list
  std::vector<std::unique_ptr<cuda::NcclRank>> joined_;
};

// Returns when what was started has ended. Errors (device).
void await(threads::World& world, cuda::NcclRank& nccl, const char* what);

}  // namespace hetsgd::mpi
