#include "cluster/mpi/rank_bytes.hpp"

#include <cstring>

#include "cluster/service_recipe.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {
namespace {

// What has a fixed length; then the host's name, and the cores.
struct RankHead {
  int rank, size, local_rank, local_size, host_cores;
  std::int64_t pid;
  std::size_t host_length;
};

}  // namespace

std::vector<std::byte> pack(const MpiRank& rank) {
  const RankHead head{.rank = rank.rank,
                      .size = rank.size,
                      .local_rank = rank.local_rank,
                      .local_size = rank.local_size,
                      .host_cores = rank.host_cores,
                      .pid = rank.pid,
                      .host_length = rank.host.size()};
  std::vector<std::byte> bytes;
  detail::put(bytes, &head, sizeof head);
  detail::put(bytes, rank.host.data(), rank.host.size());
  detail::put(bytes, rank.cores.data(), rank.cores.size() * sizeof(int));
  return bytes;
}

MpiRank unpack_rank(std::span<const std::byte> bytes) {
  RankHead head;
  HETSGD_CHECK_GE(bytes.size(), sizeof head);
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes = bytes.subspan(sizeof head);
  HETSGD_CHECK_GE(bytes.size(), head.host_length);
  MpiRank rank{.rank = head.rank,
               .size = head.size,
               .local_rank = head.local_rank,
               .local_size = head.local_size,
               .host = {reinterpret_cast<const char*>(bytes.data()), head.host_length},
               .pid = head.pid,
               .cores = {},
               .host_cores = head.host_cores};
  bytes = bytes.subspan(head.host_length);
  rank.cores.resize(bytes.size() / sizeof(int));
  if (!bytes.empty()) std::memcpy(rank.cores.data(), bytes.data(), bytes.size());
  return rank;
}

}  // namespace hetsgd::mpi
