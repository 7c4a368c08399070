// TreeGroup: GpuGroup whose all_reduce goes up and down binomial trees; see gpu_group.hpp.
//
//    partition of rank k, p = 4; ranks count from k
//      up     0 += 1    2 += 3        then   0 += 2
//      down   2 <- 0                  then   1 <- 0    3 <- 2
//
// There are p such trees at the same time, one per partition. Each is driven by one rank's thread,
// which gives the work of all ranks of its tree to streams on their GPUs. Events carry the order
// from one GPU's stream to another's, so the host waits only at the end.
#pragma once

#include <memory>
#include <vector>

#include "cluster/cuda/ring_group.hpp"

namespace hetsgd::cuda {

// Everything but all_reduce is the ring's.
class TreeGroup final : public RingGroup {
 public:
  TreeGroup(std::vector<int> gpus, const GpuGroupOptions& options);
  ~TreeGroup() override;

  AllReduce method() const override { return AllReduce::tree; }

 protected:
  void all_reduce(int rank, const CollectiveCall& call, Inputs in, Outputs out) override;

 private:
  // The tree of one partition: its streams and scratch memory on every GPU.
  class Tree;
  // By rank, each made and used by its rank's thread alone.
  std::vector<std::unique_ptr<Tree>> trees_;
};

}  // namespace hetsgd::cuda
