// GpuGroup by NCCL.
#pragma once

#include <memory>
#include <vector>

#include "cluster/cuda/gpu_group.hpp"

namespace hetsgd::cuda {

// The ranks of one process, with a communicator for each, made together at the first call. fetch()
// and what else NCCL does not do go by a RingGroup with `options`. Requires: nccl_problem(gpus) is
// empty. Null in a binary without NCCL.
std::unique_ptr<GpuGroup> make_nccl_group(std::vector<int> gpus, const GpuGroupOptions& options);

}  // namespace hetsgd::cuda
