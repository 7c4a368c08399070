#include "cluster/threads/endpoint.hpp"

namespace hetsgd::threads {

ThreadsEndpoint::ThreadsEndpoint(Run& run, Process& process)
    : ProcessEndpoint(run.world_, run.options_, process),
      run_(run),
      comm_(run.everybody_, process.rank) {}

void ThreadsEndpoint::background_task(std::string name, std::function<void(Endpoint&)> fn) {
  world_.safepoint();
  process_.device->synchronize();  // the background task's device may go on where this one stands
  run_.start_background_task(process_, name, std::move(fn), ProcessKind::background_task);
}

// The service's thread starts while the list's mutex is held. It may use a plain pointer: the list
// keeps the service until every thread is joined. The safepoint comes before that mutex, with which
// nobody may stop for a pause.
std::shared_ptr<ServicePort> ThreadsEndpoint::open_service(
    const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory) {
  world_.safepoint();
  const auto make = [&](const auto&) {
    auto service = std::make_shared<ThreadsService>(world_, name, factory());
    run_.start_service(name, [service = service.get()](Process& me) { service->serve(me); });
    return service;
  };
  return std::make_shared<ThreadsPort>(run_.services_.open(name, make), process_.rank);
}

void ThreadsEndpoint::while_paused(FunctionRef fn) { world_.while_paused(fn); }

void ThreadsEndpoint::while_paused_together(FunctionRef fn) { comm_.while_paused_together(fn); }

// --- run

namespace {

std::vector<int> gpus_of(const std::vector<DeviceSpec>& devices) {
  std::vector<int> gpus;
  for (const DeviceSpec& device : devices) gpus.push_back(device.gpu);
  return gpus;
}

}  // namespace

// All threads of the run share the cores of this process, whether workers are pinned or not.
Run::Run(const ClusterOptions& options, std::vector<DeviceSpec> devices, std::vector<int> cores)
    : LocalRun(options, cores, static_cast<int>(cores.size())),
      devices_(std::move(devices)),
      pinning_(assign_cores(devices_, cores_)),
      everybody_(
          std::make_shared<Group>(world_, pool_, *this, gpus_of(devices_), options.all_reduce)) {}

// A thread that cannot be started aborts the run like any other error, because those that have been
// started must be unwound and joined first: world_.run() does both, and rethrows it.
//
// A worker that ends normally tells the services. One that throws does not: the run is over then.
ClusterReport Run::run(const std::function<void(Endpoint&)>& worker) {
  try {
    for (int rank = 0; rank < options_.workers; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      start_worker(rank, {devices_[r], pinning_[r]}, [this, &worker](Process& me) {
        ThreadsEndpoint endpoint(*this, me);
        worker(endpoint);
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
  world_.run(options_.workers);
  return local_report();
}

// On a device of the same kind as its worker's: the same GPU, or as many cores.
Process& Run::start_background_task(Process& parent, const std::string& name,
                                    std::function<void(Endpoint&)> fn, ProcessKind kind) {
  return start_background_task_on(devices_[static_cast<std::size_t>(parent.rank)], parent, name,
                                  kind, [this, fn = std::move(fn)](Process& me) {
                                    ThreadsEndpoint endpoint(*this, me);
                                    fn(endpoint);
                                  });
}

}  // namespace hetsgd::threads
