// Overhead of the mpi cluster's message layer over raw MPI: one-way times of a ping-pong, and the
// all_reduce beside MPI_Allreduce.
//
//   mpirun -n 2 mpi_bench
//
// Raw MPI and hetsgd take turns, many times, so that both meet the same load on the host. The best
// time of each is the time on an undisturbed host.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <vector>

#include "cluster/cluster.hpp"

namespace {

using namespace hetsgd;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 40;

double seconds_since(Clock::time_point begin) { return Seconds(Clock::now() - begin).count(); }

struct Best {
  double raw = std::numeric_limits<double>::infinity(), ours = raw;
  template <class Raw, class Ours>
  void measure(Endpoint& endpoint, int repeats, Raw raw_once, Ours ours_once) {
    for (int round = 0; round < kRounds; ++round) {
      endpoint.comm().barrier();
      auto begin = Clock::now();
      for (int i = 0; i < repeats; ++i) raw_once();
      raw = std::min(raw, seconds_since(begin) / repeats);
      endpoint.comm().barrier();
      begin = Clock::now();
      for (int i = 0; i < repeats; ++i) ours_once();
      ours = std::min(ours, seconds_since(begin) / repeats);
    }
  }
  void print(const Endpoint& endpoint, const char* what, std::size_t bytes, double scale) const {
    if (endpoint.rank() != 0) return;
    std::printf("%-12s %10zu B   raw %10.2f us   ours %10.2f us   %+6.1f %%\n", what, bytes,
                raw * scale * 1e6, ours * scale * 1e6, (ours / raw - 1) * 100);
    std::fflush(stdout);
  }
};

int repeats_for(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{4} << 20) / (bytes + 1), 2, 200));
}

void ping_pong(Endpoint& endpoint, std::size_t bytes) {
  if (endpoint.rank() > 1) return;
  std::vector<std::byte> x(bytes, std::byte{1});
  const int peer = 1 - endpoint.rank(), n = static_cast<int>(bytes);
  const auto raw_send = [&] { MPI_Send(x.data(), n, MPI_BYTE, peer, 1, MPI_COMM_WORLD); };
  const auto raw_receive = [&] {
    MPI_Recv(x.data(), n, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  };
  const auto send = [&] { endpoint.comm().send(peer, 1, std::span<const std::byte>(x)); };
  const auto receive = [&] { endpoint.comm().receive(peer, 1, std::span(x)); };
  const auto turns = [&](auto first, auto second) {
    return [&endpoint, first, second] {
      endpoint.rank() == 0 ? (first(), second()) : (second(), first());
    };
  };
  Best best;
  best.measure(endpoint, repeats_for(bytes), turns(raw_send, raw_receive), turns(send, receive));
  best.print(endpoint, "one_way", bytes, 0.5);
}

void all_reduce(Endpoint& endpoint, std::size_t bytes) {
  std::vector<float> x(bytes / sizeof(float), 0.0F);
  Best best;
  best.measure(
      endpoint, repeats_for(bytes),
      [&] {
        MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      },
      [&] { endpoint.comm().all_reduce(std::span(x)); });
  best.print(endpoint, "all_reduce", bytes, 1);
}

}  // namespace

int main() {
  ClusterOptions options;
  ProcessGroup& ranks = processes_of("mpi");
  options.workers = ranks.size();
  const auto cluster = make_cluster("mpi", options);
  cluster->run([](Endpoint& endpoint) {
    constexpr std::size_t kSizes[] = {8, 1024, 4096, 65536, 1 << 20, 16 << 20, 64 << 20};
    if (endpoint.size() == 2) {
      for (const std::size_t bytes : kSizes) ping_pong(endpoint, bytes);
    }
    for (const std::size_t bytes : kSizes) all_reduce(endpoint, bytes);
  });
  return ranks.leave(0);
}
