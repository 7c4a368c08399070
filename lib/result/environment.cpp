#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "cluster/devices.hpp"
#include "core/core_map.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "linalg/cpu_kernels.hpp"
#include "result/result.hpp"

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

// Whether a variable changes results or speed, and is safe to show. Variables of libraries and
// launchers are listed by full name, because launchers also set addresses, host names and folders
// under the same prefixes.
bool may_be_shown(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"HETSGD_",           "OMP_",
                                                   "OPENBLAS_",         "CUDA_EMULATION_",
                                                   "NCCL_IB_",          "NCCL_NET_",
                                                   "NCCL_P2P_",         "NCCL_SHM_",
                                                   "OMPI_MCA_btl_sm_",  "OMPI_MCA_btl_vader_",
                                                   "OMPI_MCA_pml_ob1_", "OMPI_MCA_pml_ucx_",
                                                   "UCX_RNDV_"};
  // Prefixes, each with the names that may follow it.
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"CUDA_",
       "AUTO_BOOST CACHE_DISABLE DEVICE_MAX_CONNECTIONS DEVICE_ORDER "
       "DISABLE_PTX_JIT FORCE_PTX_JIT LAUNCH_BLOCKING MODULE_LOADING "
       "MPS_ACTIVE_THREAD_PERCENTAGE VISIBLE_DEVICES"},
      {"NVIDIA_", "TF32_OVERRIDE"},
      {"NCCL_",
       "ALGO BUFFSIZE CHECK_POINTERS CROSS_NIC CUMEM_ENABLE DEBUG "
       "IGNORE_CPU_AFFINITY LAUNCH_MODE MAX_CTAS MAX_NCHANNELS MIN_CTAS "
       "MIN_NCHANNELS NET NSOCKS_PERTHREAD NTHREADS NVLS_ENABLE PROTO "
       "SOCKET_NTHREADS"},
      {"OMPI_COMM_WORLD_", "LOCAL_SIZE SIZE"},
      {"OMPI_MCA_",
       "btl coll coll_tuned_use_dynamic_rules coll_tuned_allreduce_algorithm "
       "hwloc_base_binding_policy mpi_leave_pinned mpi_oversubscribe "
       "mpi_yield_when_idle mtl opal_cuda_support osc pml "
       "rmaps_base_mapping_policy rmaps_base_oversubscribe "
       "rmaps_base_ranking_policy"},
      {"SLURM_",
       "CPUS_ON_NODE CPUS_PER_TASK CPU_BIND_TYPE DISTRIBUTION GPUS GPUS_ON_NODE "
       "GPUS_PER_NODE GPUS_PER_TASK HINT JOB_NUM_NODES NNODES NPROCS NTASKS "
       "NTASKS_PER_NODE STEP_NUM_TASKS THREADS_PER_CORE"},
      {"UCX_", "IB_NUM_PATHS MAX_RNDV_RAILS NET_DEVICES TLS ZCOPY_THRESH"}};
  const auto is_named = [&](const auto& names) {
    if (!name.starts_with(names.first)) return false;
    const auto words = split(names.second, ' ');
    return std::ranges::find(words, name.substr(names.first.size())) != words.end();
  };
  return std::ranges::any_of(kNames, is_named) ||
         std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

json topology_json() {
  const HostTopology& topology = machine_cores().topology();
  json kinds = json::array();
  for (const CoreKind& kind : topology.kinds) {
    kinds.push_back({{"name", kind.name}, {"cores", kind.cores}, {"threads", kind.threads}});
  }
  return {{"sockets", topology.sockets},
          {"numa_nodes", topology.numa_nodes},
          {"cores", topology.cores},
          {"threads_per_core", topology.threads_per_core},
          {"kinds", kinds},
          {"source", topology.source}};
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

json products_json() {
  const CpuKernels& used = cpu_kernels();
  return {{"fp32", used.fp32},
          {"bf16", used.bf16},
          {"no_amx", used.no_amx.empty() ? json(nullptr) : json(used.no_amx)}};
}

}  // namespace

std::string products_text() {
  const CpuKernels& used = cpu_kernels();
  return fmt::format("fp32 {} | bf16 {}", used.fp32, used.bf16) +
         (used.no_amx.empty() ? "" : fmt::format(" (no AMX: {})", used.no_amx));
}

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
          {"topology", topology_json()},
          {"memory_bytes", memory},
          {"products", products_json()},
          {"build", version_json()},
          {"variables", variables()}};
}

}  // namespace hetsgd
