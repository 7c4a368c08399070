// GpuGroup whose all_reduce goes up and down binomial trees; see gpu_group.hpp.
#pragma once

#include <memory>
#include <vector>

#include "cluster/cuda/ring_group.hpp"

namespace hetsgd::cuda {

class TreeGroup final : public RingGroup {
 public:
  TreeGroup(std::vector<int> gpus, const GpuGroupOptions& options);
  ~TreeGroup() override;

  AllReduce method() const override { return AllReduce::tree; }

 protected:
  void all_reduce(int rank, const CollectiveCall& call, Inputs in, Outputs out) override;

 private:
  class Tree;                                 // of one partition
  std::vector<std::unique_ptr<Tree>> trees_;  // by rank, made by its thread
};

}  // namespace hetsgd::cuda
