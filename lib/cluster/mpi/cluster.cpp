// The `mpi` cluster: one worker per rank, real time.
#include <algorithm>
#include <mutex>

#include "cluster/mpi/run.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

namespace {

// A launcher may have bound each rank of a host to cores of its own.
bool is_bound(const std::vector<MpiRank>& ranks, const MpiRank& rank) {
  return std::ranges::any_of(ranks, [&](const MpiRank& other) {
    return other.host == rank.host && other.cores != rank.cores;
  });
}

// The list by rank, the last repeated. cuda:auto is the GPU of the rank's number among the ranks of
// its host, cpu:auto the rank's equal share of the host's cores.
std::vector<std::string> resolve(const std::vector<std::string>& entries, int workers,
                                 const std::vector<MpiRank>& ranks) {
  auto devices = threads::split_devices(entries);
  if (devices.empty()) return devices;
  const auto last = devices.back();
  devices.resize(std::max(devices.size(), static_cast<std::size_t>(workers)), last);
  for (std::size_t r = 0; r < std::min(devices.size(), ranks.size()); ++r) {
    const MpiRank& rank = ranks[r];
    if (devices[r] == "cuda:auto") {
      const auto gpus = threads::all_gpus(devices[r]);
      devices[r] = gpus[static_cast<std::size_t>(rank.local_rank) % gpus.size()];
    } else if (devices[r] == "cpu:auto") {
      const std::size_t sharers =
          is_bound(ranks, rank) ? 1 : static_cast<std::size_t>(rank.local_size);
      devices[r] = fmt::format("cpu:{}", std::max<std::size_t>(1, rank.cores.size() / sharers));
    }
  }
  return devices;
}

// Where the launcher has not bound the ranks of a host, they share its cores out by local rank.
Placement place(const std::vector<DeviceSpec>& devices, const std::vector<MpiRank>& ranks, int r) {
  // The services' rank has no device; its threads take a core.
  const auto device_of = [&](int at) {
    const auto i = static_cast<std::size_t>(at);
    return i < devices.size() ? devices[i] : DeviceSpec{.text = "services"};
  };
  const MpiRank& rank = ranks[static_cast<std::size_t>(r)];
  Placement placement{.device = device_of(r), .pinned = {}, .cores = rank.cores};
  const bool bound = is_bound(ranks, rank);
  std::vector<DeviceSpec> sharing;
  std::size_t me = 0;
  for (const MpiRank& other : ranks) {
    if (other.host != rank.host) continue;
    if (other.rank != r && placement.device.gpu >= 0) {
      placement.shares_gpu |= device_of(other.rank).gpu == placement.device.gpu;
    }
    if (bound && other.rank != r) continue;
    if (other.rank == r) me = sharing.size();
    sharing.push_back(device_of(other.rank));
  }
  placement.pinned = threads::assign_cores(sharing, placement.cores)[me];
  placement.crowded = placement.pinned.empty();
  return placement;
}

class MpiCluster final : public Cluster {
 public:
  explicit MpiCluster(const ClusterOptions& options)
      : options_(options),
        environment_(Environment::get()),
        devices_(threads::parse_devices(
            resolve(options.devices, checked_size(), environment_.ranks()), options.workers,
            static_cast<int>(environment_.rank().cores.size()))),
        placement_(place(devices_, environment_.ranks(), environment_.rank().rank)) {
    threads::check_speeds(options_, "mpi");
    if (options.all_reduce == AllReduce::ring || options.all_reduce == AllReduce::tree) {
      throw with_hint(usage_error("--all-reduce: found one between GPUs of a single process, and "
                                  "every rank of --cluster mpi is a process of its own"),
                      "between ranks: auto, nccl, mpi or host");
    }
    if (options.all_reduce == AllReduce::nccl || options.all_reduce == AllReduce::mpi) {
      threads::gpus_for_all_reduce(devices_);
    }
  }

  std::string name() const override { return "mpi"; }
  int size() const override { return options_.workers; }
  bool is_virtual() const override { return false; }
  std::string device_name(int rank) const override {
    return rank < options_.workers ? devices_[static_cast<std::size_t>(rank)].text : "services";
  }

  WorkerReport planned(int rank) const override {
    const MpiRank& where = environment_.ranks()[static_cast<std::size_t>(rank)];
    const Placement placement = place(devices_, environment_.ranks(), rank);
    return {.rank = rank,
            .device = threads::device_text(placement.device, placement.pinned),
            .ledger = {},
            .cores = placement.pinned,
            .host = where.host,
            .pid = where.pid};
  }

  // A run lives until the next one, so that device memory which it leaves behind can be released.
  ClusterReport run(const std::function<void(Node&)>& worker) override {
    run_ = std::make_unique<Run>(options_, placement_);
    return run_->run(worker);
  }

  void abort(std::exception_ptr error) override {
    environment_.coordinator().fail(std::move(error));
  }

 private:
  int checked_size() const {
    const int size = environment_.rank().size, extra = options_.service_rank ? 1 : 0;
    if (size == extra) {
      throw with_hint(usage_error("--service-rank: found 1 rank, expected at least 2"),
                      "start with mpirun -n 2 or more: the last rank runs no worker");
    }
    if (options_.workers + extra == size) return options_.workers;
    throw with_hint(
        usage_error("--workers: found {}, but MPI started {} rank{}{}", options_.workers, size,
                    size == 1 ? "" : "s", extra ? ", one of them for the services" : ""),
        fmt::format("start with mpirun -n {}, or leave --workers away", options_.workers + extra));
  }

  const ClusterOptions options_;
  Environment& environment_;
  const std::vector<DeviceSpec> devices_;
  const Placement placement_;
  std::unique_ptr<Run> run_;
};

const bool mpi_registered = register_cluster(
    "mpi", "a process per worker, started by mpirun or srun, real time",
    [](const ClusterOptions& options) { return std::make_unique<MpiCluster>(options); });

}  // namespace

}  // namespace hetsgd::mpi
