#include "doctor_ranks.hpp"

#include <fmt/format.h>

#include "cluster/cluster.hpp"
#include "core/text.hpp"

namespace hetsgd {

std::vector<std::pair<std::string, std::string>> describe_ranks(
    const std::vector<std::string>& devices) {
  if (!launched()) return {};
  const std::string name = default_cluster(/*is_virtual=*/false);
  ProcessGroup& processes = processes_of(name);
  ClusterOptions options;
  options.workers = processes.size();
  options.devices = devices;
  const auto cluster = make_cluster(name, options);
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back(
      name, fmt::format("{}; MPI_THREAD_MULTIPLE; {} pointers to GPU memory", processes.library(),
                        processes.takes_gpu_memory() ? "takes" : "takes no"));
  for (const ProcessPlace& rank : processes.places()) {
    lines.emplace_back(
        fmt::format("rank {}", rank.rank),
        fmt::format("{}, local rank {} of {}, process {}, may use cores {} of {}; computes on {}",
                    rank.host, rank.local_rank, rank.local_size, rank.pid,
                    format_rank_set(rank.cores), rank.host_cores,
                    cluster->planned(rank.rank).device));
  }
  return lines;
}

}  // namespace hetsgd
