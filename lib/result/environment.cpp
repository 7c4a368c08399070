#include "result/environment.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cluster/devices.hpp"
#include "core/text.hpp"
#include "core/version.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// The value of the first line "KEY<separator>VALUE" of a file; null if there is none.
json first_value(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos || trim(std::string_view(line).substr(0, at)) != key) continue;
    std::string_view value = trim(std::string_view(line).substr(at + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    return value;
  }
  return nullptr;
}

// Variables that change what is computed or how fast. Those of a launcher go by name: beside what
// tunes a library it sets addresses, host names and folders of its own under the same prefix.
bool may_be_shown(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"HETSGD_",           "OMP_",
                                                   "OPENBLAS_",         "CUDA_EMULATION_",
                                                   "NCCL_IB_",          "NCCL_NET_",
                                                   "NCCL_P2P_",         "NCCL_SHM_",
                                                   "OMPI_MCA_btl_sm_",  "OMPI_MCA_btl_vader_",
                                                   "OMPI_MCA_pml_ob1_", "OMPI_MCA_pml_ucx_",
                                                   "UCX_RNDV_"};
  static constexpr std::string_view kNames[] = {"CUDA_AUTO_BOOST",
                                                "CUDA_CACHE_DISABLE",
                                                "CUDA_DEVICE_MAX_CONNECTIONS",
                                                "CUDA_DEVICE_ORDER",
                                                "CUDA_DISABLE_PTX_JIT",
                                                "CUDA_FORCE_PTX_JIT",
                                                "CUDA_LAUNCH_BLOCKING",
                                                "CUDA_MODULE_LOADING",
                                                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                                                "CUDA_VISIBLE_DEVICES",
                                                "NVIDIA_TF32_OVERRIDE",
                                                "NCCL_ALGO",
                                                "NCCL_BUFFSIZE",
                                                "NCCL_CHECK_POINTERS",
                                                "NCCL_CROSS_NIC",
                                                "NCCL_CUMEM_ENABLE",
                                                "NCCL_DEBUG",
                                                "NCCL_IGNORE_CPU_AFFINITY",
                                                "NCCL_LAUNCH_MODE",
                                                "NCCL_MAX_CTAS",
                                                "NCCL_MAX_NCHANNELS",
                                                "NCCL_MIN_CTAS",
                                                "NCCL_MIN_NCHANNELS",
                                                "NCCL_NET",
                                                "NCCL_NSOCKS_PERTHREAD",
                                                "NCCL_NTHREADS",
                                                "NCCL_NVLS_ENABLE",
                                                "NCCL_PROTO",
                                                "NCCL_SOCKET_NTHREADS",
                                                "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                "OMPI_COMM_WORLD_SIZE",
                                                "OMPI_MCA_btl",
                                                "OMPI_MCA_coll",
                                                "OMPI_MCA_coll_tuned_use_dynamic_rules",
                                                "OMPI_MCA_coll_tuned_allreduce_algorithm",
                                                "OMPI_MCA_hwloc_base_binding_policy",
                                                "OMPI_MCA_mpi_leave_pinned",
                                                "OMPI_MCA_mpi_oversubscribe",
                                                "OMPI_MCA_mpi_yield_when_idle",
                                                "OMPI_MCA_mtl",
                                                "OMPI_MCA_opal_cuda_support",
                                                "OMPI_MCA_osc",
                                                "OMPI_MCA_pml",
                                                "OMPI_MCA_rmaps_base_mapping_policy",
                                                "OMPI_MCA_rmaps_base_oversubscribe",
                                                "OMPI_MCA_rmaps_base_ranking_policy",
                                                "SLURM_CPUS_ON_NODE",
                                                "SLURM_CPUS_PER_TASK",
                                                "SLURM_CPU_BIND_TYPE",
                                                "SLURM_DISTRIBUTION",
                                                "SLURM_GPUS",
                                                "SLURM_GPUS_ON_NODE",
                                                "SLURM_GPUS_PER_NODE",
                                                "SLURM_GPUS_PER_TASK",
                                                "SLURM_HINT",
                                                "SLURM_JOB_NUM_NODES",
                                                "SLURM_NNODES",
                                                "SLURM_NPROCS",
                                                "SLURM_NTASKS",
                                                "SLURM_NTASKS_PER_NODE",
                                                "SLURM_STEP_NUM_TASKS",
                                                "SLURM_THREADS_PER_CORE",
                                                "UCX_IB_NUM_PATHS",
                                                "UCX_MAX_RNDV_RAILS",
                                                "UCX_NET_DEVICES",
                                                "UCX_TLS",
                                                "UCX_ZCOPY_THRESH"};
  return std::ranges::find(kNames, name) != std::end(kNames) ||
         std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

json variables() {
  json result = json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !may_be_shown(text.substr(0, equals))) continue;
    result[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return result;
}

}  // namespace

json environment_json() {
  utsname system{};
  ::uname(&system);
  const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {{"hostname", system.nodename},
          {"os", first_value("/etc/os-release", "PRETTY_NAME", '=')},
          {"kernel", std::string(system.sysname) + " " + system.release},
          {"cpu_model", first_value("/proc/cpuinfo", "model name", ':')},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"cores_available", available_cores().size()},
          {"memory_bytes", memory},
          {"build", version_json()},
          {"variables", variables()}};
}

}  // namespace hetsgd
