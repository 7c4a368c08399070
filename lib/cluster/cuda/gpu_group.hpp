// Collectives between GPUs of one process, each rank's buffers in the memory of its own GPU.
//
// Several ranks may share a GPU. Every rank's thread does its own share, at the same time as the
// others: partition r of the vector is rank r's, on streams of its own. So the transfers of one
// partition run beside the additions of another, and no thread waits for another one.
//
// Source : Adaptive SGD (Ma et al. 2021), section 4, "All-reduce Model Merging" (as many partitions
//          as GPUs, each on a stream of its own that starts at another GPU) and "Scalable Memory
//          Management" (at most one more model of memory).
// Ring   : deviates from the paper in what travels: the partial sums there, here the contributions,
//          from each GPU straight to the one that adds the partition up. So they are added in rank
//          order, with the same bytes over every GPU's link, 2 (p-1)/p n each way.
// Tree   : a binomial tree per partition, rooted at the partition's rank k: (x_k + x_{k+1}) +
//          (x_{k+2} + x_{k+3}) ..., modulo p. The same bits in every run and on all ranks, but
//          other ones than in rank order. The same bytes, in 2 log2 p instead of 2 (p-1) transfers
//          per partition.
// NCCL   : its order of adding is its own; it depends on the GPUs and how they are connected, and
//          on n, and is the same in every run. (Sums inside of an NVLink switch would not be: they
//          are turned off by NCCL_NVLS_ENABLE=0, unless the environment says otherwise.)
// Memory : ring: at most (p-1)/p n on each GPU, 2 (p-1) pieces where n is large; tree: at most n.
// Copies : between GPUs that can reach each other's memory they go straight; between others through
//          pinned host memory, by two chunks in turns.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/collective_call.hpp"

namespace hetsgd::cuda {

// Made for one communicator of the threads cluster, whose ranks share it. The streams and memory of
// a rank's thread are made at its first call.
class GpuGroup {
 public:
  virtual ~GpuGroup() = default;

  // How all_reduce adds: nccl, ring or tree.
  virtual AllReduce method() const = 0;

  // The share of `rank` in a collective with data (Comm). All ranks call it at the same time, each
  // from a thread of its own, when all buffers are ready. in[r] and out[r] are rank r's; in[r] ==
  // out[r] if a call is in place. For all_to_all in[r] is rank r's AllToAll. The result is complete
  // when all ranks have returned. Throws Error(device) if there is no memory or a call fails;
  // nobody is left waiting then.
  virtual void move(int rank, const CollectiveCall& call, std::span<const void* const> in,
                    std::span<void* const> out) = 0;

  // target, on rank's GPU, <- source, on the GPU of rank `from`. Called by rank's thread while the
  // other rank leaves its memory alone; returns when the copy is complete. Throws Error(device) if
  // it fails.
  virtual void fetch(int rank, int from, const void* source, void* target, std::size_t bytes) = 0;
};

struct GpuGroupOptions {
  // Not host. automatic: NCCL where it works between these GPUs, else the ring.
  AllReduce method = AllReduce::automatic;
  // A partition is moved in pieces of at most this size, so that transfers overlap with additions.
  std::size_t piece_bytes = std::size_t{4} << 20;
  // False: all copies go through the host, as if no GPU could reach another.
  bool peers = true;
};

// More ranks than this go through host memory: the operands of one addition travel as arguments of
// a kernel.
inline constexpr std::size_t kMostRanks = 64;

// gpus: by rank, 2 to kMostRanks. Makes what it needs at the first call. Throws Error(device) for
// method nccl if nccl_problem() is not empty.
std::unique_ptr<GpuGroup> make_gpu_group(std::vector<int> gpus, const GpuGroupOptions& options);

// Why NCCL cannot work between these GPUs, by rank; empty: it can.
std::string nccl_problem(std::span<const int> gpus);
// The version of NCCL, such as "2.28.9"; empty: it is not there.
std::string nccl_version();

}  // namespace hetsgd::cuda
