// RingGroup: GpuGroup by copies and additions of our own; see gpu_group.hpp.
//
// The share of rank r in an all_reduce, piece by piece of its partition; `ready` is an event:
//
//    pull j   in[j] --> room j        for every rank j on another GPU, on a lane each
//    adds     waits for the pulls; out[r] = in[0] + in[1] + ... in rank order; records `ready`
//    push j   waits for `ready`; out[r] --> out[j]
//
// Pieces take turns in two sets of rooms: a pull of piece k + 2 waits for `ready` of piece k.
// Nobody but rank r reads or writes its partition in any of the buffers, so no rank waits for
// another.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "cluster/cuda/copies.hpp"
#include "cluster/cuda/gpu_group.hpp"

namespace hetsgd::cuda {

// Implements everything but the tree's all_reduce, around the ring (rank r begins with r + 1), in
// rank order.
class RingGroup : public GpuGroup {
 public:
  // gpus: by rank; ranks may share one. Checked: at most kMostRanks.
  RingGroup(std::vector<int> gpus, const GpuGroupOptions& options);
  ~RingGroup() override;

  AllReduce method() const override { return AllReduce::ring; }
  void move(int rank, const CollectiveCall& call, std::span<const void* const> in,
            std::span<void* const> out) override;
  void fetch(int rank, int from, const void* source, void* target, std::size_t bytes) override;

 protected:
  using Inputs = std::span<const void* const>;
  using Outputs = std::span<void* const>;

  // For move(): this rank's share, complete on return.
  virtual void all_reduce(int rank, const CollectiveCall& call, Inputs in, Outputs out);

  int size() const { return static_cast<int>(gpus_.size()); }
  int gpu(int rank) const { return gpus_[static_cast<std::size_t>(rank)]; }
  // Whether copies between these GPUs go straight.
  bool direct(int one, int other) const { return options_.peers && reaches(one, other); }
  // Size of the pieces of a partition of `bytes` bytes, at most options.piece_bytes. The last piece
  // may be smaller.
  std::size_t piece_of(std::size_t bytes) const;

 private:
  // The resources of a rank's thread: its streams, lanes and scratch memory (ring_group.cpp).
  struct Member;

  // The rank's own, made at its first call; its GPU is the current one afterwards.
  Member& member(int rank);
  // move() without the cleaning up after an error.
  void share(int rank, const CollectiveCall& call, Inputs in, Outputs out);
  // The picture above, for the elements of `slice`; for_all: with the pushes.
  void reduce(int rank, Block slice, const CollectiveCall& call, Inputs in, Outputs out,
              bool for_all);
  void broadcast(int rank, const CollectiveCall& call, Inputs in, Outputs out);
  void all_gather(int rank, std::size_t bytes, Inputs in, Outputs out);
  void all_to_all(int rank, Inputs in);

  // By rank.
  const std::vector<int> gpus_;
  const GpuGroupOptions options_;
  // By rank, each made and used by its rank's thread alone, so without a mutex.
  std::vector<std::unique_ptr<Member>> members_;
};

// out[j] = in reduced in order, for every j, n elements each; `stream` is one of the current GPU,
// which reaches all of the memory. Returns before it is complete.
void reduce_on(const Stream& stream, std::size_t n, Element element, ReduceOp op,
               std::span<const void* const> in, std::span<void* const> out);

}  // namespace hetsgd::cuda
