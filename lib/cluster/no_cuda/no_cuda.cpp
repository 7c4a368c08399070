// Replaces cluster/cuda in a binary without CUDA, where no worker has a GPU.
#include "cluster/cuda/gpu_group.hpp"
#include "cluster/cuda/rank_gpu.hpp"
#include "core/error.hpp"

namespace hetsgd::cuda {

std::unique_ptr<GpuGroup> make_gpu_group(std::vector<int>, const GpuGroupOptions&) {
  throw CheckFailure("a group of GPUs in a binary without CUDA");
}

std::string nccl_problem(std::span<const int>) { return "this binary was built without CUDA"; }

std::string nccl_version() { return ""; }

RankGpu rank_gpu(int) { return {}; }

std::string nccl_problem(std::span<const RankGpu>) { return "this binary was built without CUDA"; }

NcclId make_nccl_id() { throw CheckFailure("NCCL in a binary without CUDA"); }

std::unique_ptr<NcclRank> join_nccl(const NcclId&, int, int, int) {
  throw CheckFailure("NCCL in a binary without CUDA");
}

void make_current(int) { throw CheckFailure("a GPU in a binary without CUDA"); }

std::shared_ptr<ExchangeMemory> make_exchange_memory(int) {
  throw CheckFailure("GPU memory in a binary without CUDA");
}

}  // namespace hetsgd::cuda
