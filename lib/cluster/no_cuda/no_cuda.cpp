// The place of cluster/cuda in a binary without CUDA, where no worker has a GPU.
#include "cluster/cuda/gpu_group.hpp"
#include "core/error.hpp"

namespace hetsgd::cuda {

std::unique_ptr<GpuGroup> make_gpu_group(std::vector<int>, const GpuGroupOptions&) {
  throw CheckFailure("a group of GPUs in a binary without CUDA");
}

std::string nccl_problem(std::span<const int>) { return "this binary was built without CUDA"; }

std::string nccl_version() { return ""; }

}  // namespace hetsgd::cuda
