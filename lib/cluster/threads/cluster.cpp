// The `threads` cluster: one thread per worker, real time.
#include <algorithm>
#include <mutex>

#include "cluster/cuda/gpu_group.hpp"
#include "cluster/threads/endpoint.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

namespace {

// May be run several times, one run after the other, and aborted from any thread at any time:
//
//              abort(e): kept in pending_          abort(e): passed on to the run
//   between runs ------------- run() -------------> running ------------- end ----> between runs
//                 begins with pending_, if any
//
// mutex_ guards the last three members. It is taken before the world's, which Run::abort takes.
class ThreadsCluster final : public Cluster {
 public:
  explicit ThreadsCluster(const ClusterOptions& options)
      : options_(options),
        cores_(available_cores()),
        devices_(parse_devices(options.devices, options.workers, static_cast<int>(cores_.size()))) {
    check_speeds(options_, "threads");
    check_all_reduce();
  }

  std::string name() const override { return "threads"; }
  int size() const override { return options_.workers; }
  bool is_virtual() const override { return false; }
  std::string device_name(int rank) const override {
    return devices_[static_cast<std::size_t>(rank)].text;
  }

  // The run before is destroyed here. `run` keeps this one until it has ended, and run_ beyond
  // that, for the device memory that the caller still holds.
  ClusterReport run(const std::function<void(Endpoint&)>& worker) override {
    std::shared_ptr<Run> run;
    {
      const std::lock_guard guard(mutex_);
      run = run_ = std::make_shared<Run>(options_, devices_, cores_);
      if (pending_) run->abort(std::exchange(pending_, nullptr));
      running_ = true;
    }
    struct Ended {
      ThreadsCluster& cluster;
      ~Ended() {
        const std::lock_guard guard(cluster.mutex_);
        cluster.running_ = false;
      }
    } ended{*this};
    return run->run(worker);
  }

  void abort(std::exception_ptr error) override {
    const std::lock_guard guard(mutex_);
    if (running_) {
      run_->abort(std::move(error));
    } else if (!pending_) {
      pending_ = std::move(error);  // came before the run: ends it at its start
    }
  }

 private:
  // What was asked for can be done: found out when the cluster is made, before any data are loaded.
  // Ring and tree only need that some worker has a GPU; nccl has conditions of its own.
  void check_all_reduce() const {
    if (options_.all_reduce == AllReduce::automatic || options_.all_reduce == AllReduce::host) {
      return;
    }
    if (options_.all_reduce == AllReduce::mpi) {
      throw with_hint(usage_error("--all-reduce mpi: found --cluster threads, expected mpi"),
                      "between GPUs of one process: nccl, ring or tree");
    }
    const std::vector<int> gpus = gpus_for_all_reduce(devices_);
    if (options_.all_reduce != AllReduce::nccl) return;
    if (const std::string problem = cuda::nccl_problem(gpus); !problem.empty()) {
      throw with_hint(device_error("--all-reduce nccl: {}", problem), "use --all-reduce ring");
    }
  }

  const ClusterOptions options_;
  const std::vector<int> cores_;
  const std::vector<DeviceSpec> devices_;
  std::mutex mutex_;
  std::shared_ptr<Run> run_;
  bool running_ = false;
  std::exception_ptr pending_;
};

const bool threads_registered =
    register_cluster({.name = "threads",
                      .help = "a thread per worker, real time",
                      .make = [](const ClusterOptions& options) {
                        return std::make_unique<ThreadsCluster>(options);
                      }});

}  // namespace

}  // namespace hetsgd::threads
