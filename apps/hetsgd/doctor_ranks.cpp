#include "doctor_ranks.hpp"

#include <fmt/format.h>

#include "cluster/cluster.hpp"
#include "cluster/mpi/mpi_cluster.hpp"
#include "core/text.hpp"

namespace hetsgd {

std::vector<std::pair<std::string, std::string>> describe_ranks(
    const std::vector<std::string>& devices) {
  if (!launched_by_mpi()) return {};
  ClusterOptions options;
  options.workers = mpi_rank().size;
  options.devices = devices;
  const auto cluster = make_cluster("mpi", options);
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back("mpi", fmt::format("{}; MPI_THREAD_MULTIPLE; {} pointers to GPU memory",
                                        mpi_library(), mpi_cuda_aware() ? "takes" : "takes no"));
  for (const MpiRank& rank : mpi_ranks()) {
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
