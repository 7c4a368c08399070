// The `threads` cluster: one thread per worker, real time.
#include "cluster/cluster.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/cuda/gpu_group.hpp"
#include "cluster/realtime/process_endpoint.hpp"
#include "cluster/realtime/realtime_run.hpp"
#include "cluster/service_list.hpp"
#include "cluster/threads/comm.hpp"
#include "cluster/threads/service.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::threads {

// One run. The cluster owns it; it owns the world with its threads and processes, the group of all
// ranks, the pool of messages and the services. It lives until the cluster's next run, so that
// device memory which a run leaves behind can still be released: the devices belong to its
// processes.
//
// Its phases, on the thread that calls run():
//
//   worker threads started --> all set up --> clock runs --> workers and background tasks ended -->
//   services ended, all threads joined --> services destroyed --> report, or the first error
class ThreadsRun final : public HelperStarter, private RealtimeRun {
 public:
  // devices: of the view, by rank; cores: those that this process may use. Throws Error(device) if
  // options.all_reduce cannot work between the GPUs.
  ThreadsRun(const ClusterOptions& options, Segment& segment, std::vector<DeviceSpec> devices,
             std::vector<int> cores);

  // Called once. Calls worker(endpoint) in one thread per rank. Rethrows the first error, by then
  // with every thread joined; nothing refers to `worker` afterwards.
  ClusterReport run(const std::function<void(Endpoint&)>& worker);
  // Any thread, also before run(), which then ends as soon as the workers are set up.
  void abort(std::exception_ptr error) { world_.abort(std::move(error)); }

 private:
  friend class ThreadsEndpoint;
  int workers() const { return static_cast<int>(devices_.size()); }  // of the view
  Process& start_helper(Process& parent, const std::string& name, std::function<void(Endpoint&)> fn,
                        ProcessKind kind) override;
  // Called by a worker that is lost.
  void lose(Seconds detected);

  const std::vector<DeviceSpec> devices_;        // by rank
  const std::vector<std::vector<int>> pinning_;  // by rank
  MessagePool pool_;                             // guarded by the world's mutex
  std::shared_ptr<Group> everybody_;             // all ranks; endpoints share it
  ServiceList<ThreadsService> services_;
  std::vector<std::uint8_t> returned_;  // by rank: its worker has; read when all have ended
};

// The vocabulary for one process: a worker or a helper of it. It lies on the stack of its thread,
// and so ends before its thread does. All of one rank see the same group, so they share its
// mailbox, and a collective may be called by one of them at a time.
class ThreadsEndpoint final : public ProcessEndpoint {
 public:
  ThreadsEndpoint(ThreadsRun& run, Process& process);

  int size() const override { return comm_.size(); }
  Comm& comm() override { return comm_; }

  std::shared_ptr<ServicePort> open_service_raw(const std::string& name,
                                                const ServiceFactory& factory) override;
  void pause_raw(bool together, FunctionRef fn) override {
    together ? comm_.while_paused_together(fn) : world_.while_paused(fn);
  }

 private:
  void lose() override { run_.lose(now()); }
  ThreadsRun& run_;
  ThreadsComm comm_;
};

ThreadsEndpoint::ThreadsEndpoint(ThreadsRun& run, Process& process)
    : ProcessEndpoint(run.world_, run.options_, run.segment_, process, run),
      run_(run),
      comm_(run.everybody_, process.rank) {}

// The service's thread starts while the list's mutex is held. It may use a plain pointer: the list
// keeps the service until every thread is joined. The safepoint comes before that mutex, with which
// nobody may stop for a pause.
std::shared_ptr<ServicePort> ThreadsEndpoint::open_service_raw(const std::string& name,
                                                               const ServiceFactory& factory) {
  world_.safepoint();
  const auto make = [&](const auto&) {
    std::unique_ptr<ServiceHandler> handler = factory.make();
    load_service(run_.segment_, name, *handler);
    auto service = std::make_shared<ThreadsService>(world_, name, std::move(handler));
    run_.start_service(name, [service = service.get()](Process& me) { service->serve(me); });
    return service;
  };
  return std::make_shared<ThreadsPort>(run_.services_.open(name, make), process_.rank);
}

// --- run

namespace {

std::vector<int> gpus_of(const std::vector<DeviceSpec>& devices) {
  std::vector<int> gpus;
  for (const DeviceSpec& device : devices) gpus.push_back(device.gpu);
  return gpus;
}

}  // namespace

// All threads of the run share the cores of this process, whether workers are pinned or not.
ThreadsRun::ThreadsRun(const ClusterOptions& options, Segment& segment,
                       std::vector<DeviceSpec> devices, std::vector<int> cores)
    : RealtimeRun(options, segment, cores, static_cast<int>(cores.size())),
      devices_(std::move(devices)),
      pinning_(assign_cores(devices_, machine_cores().in_order(cores_))),
      everybody_(
          std::make_shared<Group>(world_, pool_, *this, gpus_of(devices_), options.all_reduce)),
      returned_(devices_.size()) {}

// A thread that cannot be started aborts the run like any other error, because those that have been
// started must be unwound and joined first: world_.run() does both, and rethrows it.
//
// A worker that ends normally tells the services. One that throws does not: the run is over then.
ClusterReport ThreadsRun::run(const std::function<void(Endpoint&)>& worker) {
  try {
    for (int rank = 0; rank < workers(); ++rank) {
      start_worker(rank, {devices_[at(rank)], pinning_[at(rank)]}, [this, &worker](Process& me) {
        ThreadsEndpoint endpoint(*this, me);
        worker(endpoint);
        returned_[at(me.rank)] = 1;
        services_.left(me.rank);
      });
    }
  } catch (...) {
    world_.abort(std::current_exception());
  }
  struct Ended {  // handlers may refer to what the caller owns
    ServiceList<ThreadsService>& services;
    ~Ended() { services.clear(); }
  } ended{services_};
  try {
    world_.run(workers());
  } catch (const LostWorkers&) {
    // One that had done all its work by then has nothing to lose.
    for (int rank = 0; rank < workers(); ++rank) {
      if (returned_[at(rank)] != 0) segment_.lost.erase(segment_.id(rank));
    }
  }
  segment_.end([&](SavedFields& fields) {
    services_.for_each([&](ThreadsService& service) { service.save(fields); });
  });
  return local_report();
}

// Services hear of all that are lost by now, and so do those who train without waiting for anybody:
// else some would go on for ever.
void ThreadsRun::lose(Seconds detected) {
  if (!world_.lose(detected)) return;
  fill_in_lost_workers({detected}, options_, segment_);
  for (int rank = 0; rank < workers(); ++rank) {
    if (segment_.lost.contains(segment_.id(rank))) services_.left(rank);
  }
  if (segment_.losing) segment_.losing();
}

// The task gets a device of the same kind as its worker's: the same GPU, or as many cores.
Process& ThreadsRun::start_helper(Process& parent, const std::string& name,
                                  std::function<void(Endpoint&)> fn, ProcessKind kind) {
  return start_helper_on(devices_[at(parent.rank)], parent, name, kind,
                         [this, fn = std::move(fn)](Process& me) {
                           ThreadsEndpoint endpoint(*this, me);
                           fn(endpoint);
                         });
}

namespace {

// May be run several times, one run after the other, and aborted from any thread at any time:
//
//              abort(e): kept in pending_          abort(e): passed on to the run
//   between runs ------------- run() -------------> running ------------- end ----> between runs
//                 begins with pending_, if any
//
// mutex_ guards the last three members. It is taken before the world's, which ThreadsRun::abort
// takes.
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
  std::string device_name(int worker) const override { return devices_[at(worker)].text; }
  WorkerReport planned(int worker) const override {
    const std::vector<int> pinned =
        assign_cores(devices_, machine_cores().in_order(cores_))[at(worker)];
    return {.rank = worker,
            .device = device_text(devices_[at(worker)], pinned),
            .breakdown = {},
            .cores = pinned};
  }

  // The run before is destroyed here. `run` keeps this one until it has ended, and run_ beyond
  // that, for the device memory that the caller still holds.
  ClusterReport run_segment(const std::function<void(Endpoint&)>& worker,
                            Segment& segment) override {
    std::shared_ptr<ThreadsRun> run;
    {
      const std::lock_guard guard(mutex_);
      run = run_ = std::make_shared<ThreadsRun>(options_, segment, devices_of(segment), cores_);
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
  // Checks that the requested all_reduce can be done, when the cluster is made and before any data
  // are loaded. Ring and tree only need that some worker has a GPU; nccl has conditions of its own.
  void check_all_reduce() const {
    if (options_.all_reduce == AllReduce::automatic || options_.all_reduce == AllReduce::host) {
      return;
    }
    if (options_.all_reduce == AllReduce::mpi) {
      refuse("--all-reduce", "mpi with --cluster threads", "auto, nccl, ring, tree or host");
    }
    const std::vector<int> gpus = gpus_for_all_reduce(devices_);
    if (options_.all_reduce != AllReduce::nccl) return;
    if (const std::string problem = cuda::nccl_problem(gpus); !problem.empty()) {
      throw with_hint(device_error("--all-reduce nccl: {}", problem), "use --all-reduce ring");
    }
  }

  std::vector<DeviceSpec> devices_of(const Segment& segment) const {
    if (segment.view.empty()) return devices_;
    std::vector<DeviceSpec> devices;
    for (const int worker : segment.view) devices.push_back(devices_[at(worker)]);
    return devices;
  }

  const ClusterOptions options_;
  const std::vector<int> cores_;
  const std::vector<DeviceSpec> devices_;
  std::mutex mutex_;
  std::shared_ptr<ThreadsRun> run_;
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
