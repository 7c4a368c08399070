#include "cluster/cuda/gpu_group.hpp"

#include <algorithm>

#include "cluster/cuda/nccl_member.hpp"
#include "cluster/cuda/tree_group.hpp"
#include "core/error.hpp"

namespace hetsgd::cuda {

#ifdef HETSGD_NCCL

std::string nccl_problem(std::span<const int> gpus) {
  std::vector<int> sorted(gpus.begin(), gpus.end());
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return fmt::format("several workers share cuda:{}, and NCCL needs a GPU for each", *twice);
  }
  try {
    Nccl::get();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string nccl_version() {
  try {
    int version = 0;
    Nccl::get().check(Nccl::get().version(&version), "ncclGetVersion");
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  } catch (const Error&) {
    return "";
  }
}

#else

std::string nccl_problem(std::span<const int>) {
  return "this binary was built without NCCL (its header was not found)";
}

std::string nccl_version() { return ""; }

#endif

std::unique_ptr<GpuGroup> make_gpu_group(std::vector<int> gpus, const GpuGroupOptions& options) {
  HETSGD_CHECK(options.method != AllReduce::host);
  if (options.method == AllReduce::tree) {
    return std::make_unique<TreeGroup>(std::move(gpus), options);
  }
  if (options.method != AllReduce::ring) {
    const std::string problem = nccl_problem(gpus);
#ifdef HETSGD_NCCL
    if (problem.empty()) return make_nccl_group(std::move(gpus), options);
#endif
    if (options.method == AllReduce::nccl) {
      throw with_hint(device_error("--all-reduce nccl: {}", problem), "use --all-reduce ring");
    }
  }
  return std::make_unique<RingGroup>(std::move(gpus), options);
}

}  // namespace hetsgd::cuda
