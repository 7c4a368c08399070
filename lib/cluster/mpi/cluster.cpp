// The `mpi` cluster: one worker per rank, real time.
#include <algorithm>
#include <mutex>

#include "cluster/mpi/run.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

namespace {

// The rank's device from a list by rank; cuda:auto is the GPU of its number among the host's ranks.
std::vector<std::string> with_own_gpu(const std::vector<std::string>& entries,
                                      const MpiRank& rank) {
  auto devices = threads::split_devices(entries);
  for (std::string& text : devices) {
    if (text != "cuda:auto") continue;
    const auto gpus = threads::split_devices({"cuda:all"});
    text = gpus[static_cast<std::size_t>(rank.local_rank) % gpus.size()];
  }
  return devices;
}

// A launcher may have bound each rank to cores of its own; where it has not, all ranks of a host
// have the same mask, and share it out by local rank.
Placement place(const std::vector<DeviceSpec>& devices, const Environment& environment) {
  const MpiRank& rank = environment.rank();
  const auto& masks = environment.local_cores();
  const auto mine = static_cast<std::size_t>(rank.local_rank);
  Placement placement;
  placement.device = devices[static_cast<std::size_t>(rank.rank)];
  placement.cores = masks[mine];
  const bool bound = std::ranges::any_of(masks, [&](const auto& mask) { return mask != masks[0]; });
  std::vector<DeviceSpec> sharing;
  std::size_t me = 0;
  for (const MpiRank& other : environment.ranks()) {
    if (other.host != rank.host || (bound && other.rank != rank.rank)) continue;
    if (other.rank == rank.rank) me = sharing.size();
    sharing.push_back(devices[static_cast<std::size_t>(other.rank)]);
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
            with_own_gpu(options.devices, environment_.rank()), checked_size(),
            static_cast<int>(
                environment_.local_cores()[static_cast<std::size_t>(environment_.rank().local_rank)]
                    .size()))),
        placement_(place(devices_, environment_)) {
    threads::check_speeds(options_, "mpi");
  }

  std::string name() const override { return "mpi"; }
  int size() const override { return environment_.rank().size; }
  bool is_virtual() const override { return false; }
  std::string device_name(int rank) const override {
    return devices_[static_cast<std::size_t>(rank)].text;
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
    const int size = environment_.rank().size;
    if (options_.workers == size) return size;
    throw with_hint(
        usage_error("--workers: found {}, but MPI started {} rank{}", options_.workers, size,
                    size == 1 ? "" : "s"),
        fmt::format("start with mpirun -n {}, or leave --workers away", options_.workers));
  }

  const ClusterOptions options_;
  Environment& environment_;
  const std::vector<DeviceSpec> devices_;
  const Placement placement_;
  std::unique_ptr<Run> run_;
};

const bool registered = register_cluster(
    "mpi", "a process per worker, started by mpirun or srun, real time",
    [](const ClusterOptions& options) { return std::make_unique<MpiCluster>(options); });

}  // namespace

}  // namespace hetsgd::mpi
