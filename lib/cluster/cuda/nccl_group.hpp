// GpuGroup by NCCL.
#pragma once

#include <memory>
#include <vector>

#include "cluster/cuda/gpu_group.hpp"

namespace hetsgd::cuda {

// nccl_problem(gpus) is empty. Null in a binary without NCCL.
std::unique_ptr<GpuGroup> make_nccl_group(std::vector<int> gpus, const GpuGroupOptions& options);

}  // namespace hetsgd::cuda
