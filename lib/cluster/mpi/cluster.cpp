// The `mpi` cluster: one worker per rank, real time. Every rank computes the devices and placements
// of all ranks from the same facts: options, which are compared at the start, and the ranks'
// places. So nothing is sent for it.
#include <algorithm>
#include <mutex>

#include "cluster/mpi/run.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::mpi {

namespace {

// A launcher may have bound each rank of a host to cores of its own: two ranks of the host differ
// then.
bool is_bound(const std::vector<ProcessPlace>& ranks, const ProcessPlace& rank) {
  return std::ranges::any_of(ranks, [&](const ProcessPlace& other) {
    return other.host == rank.host && other.cores != rank.cores;
  });
}

// Returns the device list by rank, the last repeated. cuda:auto is the GPU of the rank's number
// among the ranks of its host, cpu:auto the rank's equal share of the host's cores.
std::vector<std::string> resolve(const std::vector<std::string>& entries, int workers,
                                 const std::vector<ProcessPlace>& ranks) {
  auto devices = split_devices(entries);
  if (devices.empty()) return devices;
  const auto last = devices.back();
  devices.resize(std::max(devices.size(), at(workers)), last);
  for (std::size_t r = 0; r < std::min(devices.size(), ranks.size()); ++r) {
    const ProcessPlace& rank = ranks[r];
    if (devices[r] == "cuda:auto") {
      const auto gpus = all_gpus(devices[r]);
      devices[r] = gpus[at(rank.local_rank) % gpus.size()];
    } else if (devices[r] == "cpu:auto") {
      const std::size_t sharers = is_bound(ranks, rank) ? 1 : at(rank.local_size);
      devices[r] = fmt::format("cpu:{}", std::max<std::size_t>(1, rank.cores.size() / sharers));
    }
  }
  return devices;
}

// Placement of rank r. If the launcher has not bound the ranks of a host, they share its cores out
// by local rank; if it has, each rank has its own cores to itself. Cores have the order of the
// rank's own host, which need not be like this one. No rank is pinned where cores are too few.
Placement place(const std::vector<DeviceSpec>& devices, const std::vector<ProcessPlace>& ranks,
                int r) {
  // The services' rank has no device; its threads take a core.
  const auto device_of = [&](int of) {
    return at(of) < devices.size() ? devices[at(of)] : DeviceSpec{.text = "services"};
  };
  const ProcessPlace& rank = ranks[at(r)];
  Placement placement{.seat = {.device = device_of(r), .pinned = {}}, .cores = rank.cores};
  const bool bound = is_bound(ranks, rank);
  std::vector<DeviceSpec> sharing;
  std::size_t me = 0;
  // The order is that of ranks, on every rank: so each takes another part of the same assignment.
  for (const ProcessPlace& other : ranks) {
    if (other.host != rank.host) continue;
    if (other.rank != r && placement.seat.device.gpu >= 0) {
      placement.shares_gpu |= device_of(other.rank).gpu == placement.seat.device.gpu;
    }
    if (bound && other.rank != r) continue;
    if (other.rank == r) me = sharing.size();
    sharing.push_back(device_of(other.rank));
  }
  placement.seat.pinned = assign_cores(sharing, rank.order)[me];
  placement.oversubscribed = placement.seat.pinned.empty();
  return placement;
}

class MpiCluster final : public Cluster {
 public:
  explicit MpiCluster(const ClusterOptions& options)
      : options_(options),
        environment_(Environment::get()),
        devices_(parse_devices(resolve(options.devices, checked_size(), environment_.places()),
                               options.workers,
                               static_cast<int>(environment_.place().cores.size()))),
        placement_(place(devices_, environment_.places(), environment_.rank())) {
    // The constructor is called on every rank, and throws the same errors there.
    check_speeds(options_, "mpi");
    if (options.all_reduce == AllReduce::ring || options.all_reduce == AllReduce::tree) {
      refuse("--all-reduce", "a method between GPUs of one process, with --cluster mpi",
             "auto, nccl, mpi or host");
    }
    if (options.all_reduce == AllReduce::nccl || options.all_reduce == AllReduce::mpi) {
      gpus_for_all_reduce(devices_);
    }
  }

  std::string name() const override { return "mpi"; }
  int size() const override { return options_.workers; }
  std::string device_name(int worker) const override {
    return worker < options_.workers ? devices_[at(worker)].text : "services";
  }

  bool runs_here(int worker) const override { return worker == environment_.rank(); }
  WorkerReport planned(int worker) const override {
    const ProcessPlace& where = environment_.places()[at(worker)];
    const Placement placement = place(devices_, environment_.places(), worker);
    return {.rank = worker,
            .device = device_text(placement.seat.device, placement.seat.pinned),
            .breakdown = {},
            .cores = placement.seat.pinned,
            .host = where.host,
            .pid = where.pid};
  }

  // A run lives until the next one, so that device memory which it leaves behind can be released.
  ClusterReport run_segment(const std::function<void(Endpoint&)>& worker,
                            Segment& segment) override {
    run_ = std::make_unique<MpiRun>(options_, segment, placement_);
    return run_->run(worker);
  }

  void abort(std::exception_ptr error) override {
    environment_.coordinator().fail(std::move(error));
  }

 private:
  int checked_size() const {
    const int size = environment_.size(), extra = options_.service_rank ? 1 : 0;
    if (size == extra) {
      refuse("--service-rank", "1 rank", "at least 2",
             "start with mpirun -n 2 or more: the last rank runs no worker");
    }
    if (options_.workers + extra == size) return options_.workers;
    refuse("--workers",
           fmt::format("{}, but MPI started {} rank{}{}", options_.workers, size,
                       size == 1 ? "" : "s", extra ? ", one of them for the services" : ""),
           "a worker per rank",
           fmt::format("start with mpirun -n {}, or omit --workers", options_.workers + extra));
  }

  const ClusterOptions options_;
  Environment& environment_;
  const std::vector<DeviceSpec> devices_;
  const Placement placement_;
  std::unique_ptr<MpiRun> run_;
};

const bool mpi_registered = register_cluster(
    {.name = "mpi",
     .help = "a process per worker, started by mpirun or srun, real time",
     .make = [](const ClusterOptions& options) { return std::make_unique<MpiCluster>(options); },
     .join = [](Seconds peer_timeout) -> ProcessGroup& { return Environment::get(peer_timeout); }});

}  // namespace

}  // namespace hetsgd::mpi
