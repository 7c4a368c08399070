// GpuGroup by copies and additions of our own; see gpu_group.hpp.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "cluster/cuda/copies.hpp"
#include "cluster/cuda/gpu_group.hpp"

namespace hetsgd::cuda {

// Everything but the tree's all_reduce: around the ring, in rank order.
class RingGroup : public GpuGroup {
 public:
  RingGroup(std::vector<int> gpus, const GpuGroupOptions& options);
  ~RingGroup() override;

  AllReduce method() const override { return AllReduce::ring; }
  void move(int rank, const CollectiveCall& call, std::span<const void* const> in,
            std::span<void* const> out) override;
  void fetch(int rank, int from, const void* source, void* target, std::size_t bytes) override;

 protected:
  using Inputs = std::span<const void* const>;
  using Outputs = std::span<void* const>;

  virtual void all_reduce(int rank, const CollectiveCall& call, Inputs in, Outputs out);

  int size() const { return static_cast<int>(gpus_.size()); }
  int gpu(int rank) const { return gpus_[static_cast<std::size_t>(rank)]; }
  bool direct(int one, int other) const { return options_.peers && reaches(one, other); }
  // How a partition is cut: pieces of one size, but for the last, of `bytes` at most.
  std::size_t piece_of(std::size_t bytes) const;

 private:
  struct Member;  // what a rank's thread works with

  Member& member(int rank);
  void share(int rank, const CollectiveCall& call, Inputs in, Outputs out);
  void reduce(int rank, Block slice, const CollectiveCall& call, Inputs in, Outputs out,
              bool for_all);
  void broadcast(int rank, const CollectiveCall& call, Inputs in, Outputs out);
  void all_gather(int rank, std::size_t bytes, Inputs in, Outputs out);

  const std::vector<int> gpus_;  // by rank
  const GpuGroupOptions options_;
  std::vector<std::unique_ptr<Member>> members_;  // by rank, made by its thread
};

// out = in reduced in order, of n elements; `stream` is one of the current GPU.
void reduce_on(const Stream& stream, std::size_t n, Element element, ReduceOp op,
               std::span<const void* const> in, std::span<void* const> out);

}  // namespace hetsgd::cuda
