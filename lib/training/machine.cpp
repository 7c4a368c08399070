#include "training/machine.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/devices.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "training/oversubscription.hpp"

namespace hetsgd {

namespace {

nlohmann::json machine_json(const ProcessGroup& processes, bool service_rank) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const ProcessPlace& rank : processes.places()) {
    auto node = std::ranges::find_if(nodes, [&](const auto& n) { return n["host"] == rank.host; });
    if (node == nodes.end()) {
      nodes.push_back({{"host", rank.host}, {"cores", rank.host_cores}, {"ranks", {}}});
      node = nodes.end() - 1;
    }
    (*node)["ranks"].push_back({{"rank", rank.rank},
                                {"local_rank", rank.local_rank},
                                {"pid", rank.pid},
                                {"cores", rank.cores}});
  }
  nlohmann::json services = nullptr;
  if (service_rank) services = processes.size() - 1;
  return {{"mpi_library", processes.library()},
          {"thread_level", "MPI_THREAD_MULTIPLE"},
          {"cuda_aware", processes.takes_gpu_memory()},
          {"service_rank", std::move(services)},
          {"nodes", std::move(nodes)}};
}

}  // namespace

void describe_machine(const Cluster& cluster, const TrainOptions& options, Record& record) {
  ProcessGroup& processes = processes_of(cluster.name());
  if (processes.control() != nullptr) {
    record.machine = machine_json(processes, options.service_rank);
  }
  if (first_gpu(cluster) >= 0 && find_model(options.model).info.reads_images) {
    record.convolution_library = convolution_library_version(options.convolution_library);
  }
  record.load = host_load(cluster);
  for (std::string& text : oversubscription_warnings(cluster))
    record.warnings.push_back(std::move(text));
}

int first_gpu(const Cluster& cluster) {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    if (!cluster.runs_here(rank)) continue;
    if (const int gpu = gpu_of(cluster.device_name(rank)); gpu >= 0) return gpu;
  }
  return -1;
}

}  // namespace hetsgd
