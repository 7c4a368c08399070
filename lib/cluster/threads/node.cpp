#include "cluster/threads/node.hpp"

#include <algorithm>

#include "cluster/blocking.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

ThreadsNode::ThreadsNode(Run& run, Process& process)
    : ProcessNode(run.world_, run.options_, process),
      run_(run),
      comm_(run.everybody_, process.rank) {}

void ThreadsNode::companion(std::string name, std::function<void(Node&)> fn) {
  run_.world_.safepoint();
  process_.device->synchronize();  // the companion's device may go on where this one stands
  run_.start_companion(process_, name, std::move(fn));
}

std::shared_ptr<ServicePort> ThreadsNode::open_service(
    const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory) {
  run_.world_.safepoint();
  return std::make_shared<ThreadsPort>(run_.open_service(name, factory), process_.rank);
}

void ThreadsNode::fence(FunctionRef fn) { run_.world_.fence(fn); }

void ThreadsNode::fence_together(FunctionRef fn) { comm_.fence_together(fn); }

// --- run

namespace {

std::vector<int> gpus_of(const std::vector<DeviceSpec>& devices) {
  std::vector<int> gpus;
  for (const DeviceSpec& device : devices) gpus.push_back(device.gpu);
  return gpus;
}

}  // namespace

Run::Run(const ClusterOptions& options, std::vector<DeviceSpec> devices, std::vector<int> cores)
    : options_(options),
      devices_(std::move(devices)),
      cores_(std::move(cores)),
      pinning_(assign_cores(devices_, cores_)),
      world_(static_cast<int>(cores_.size())),
      everybody_(std::make_shared<Group>(world_, pool_, gpus_of(devices_), options.all_reduce)) {}

ClusterReport Run::run(const std::function<void(Node&)>& worker) {
  try {
    for (int rank = 0; rank < options_.workers; ++rank) start_worker(rank, worker);
  } catch (...) {
    world_.abort(std::current_exception());
  }
  struct Ended {  // handlers may refer to what the caller owns
    std::vector<std::shared_ptr<ThreadsService>>& services;
    ~Ended() { services.clear(); }
  } ended{services_};
  world_.run(options_.workers);
  return report();
}

// Pins the calling thread and makes its device, whose own threads inherit the pinning.
void Run::set_up(Process& me, bool pin) {
  const auto rank = static_cast<std::size_t>(me.rank);
  auto pinned = pin ? pinning_[rank] : std::vector<int>();
  if (!pinned.empty() && !pin_to(pinned)) pinned.clear();
  // A thread starts with the mask of its maker, which may be a pinned worker.
  if (pinned.empty()) pin_to(cores_);
  me.device = make_device(devices_[rank], options_.precision);
  me.device_text = device_text(devices_[rank], pinned);
}

void Run::start_worker(int rank, const std::function<void(Node&)>& worker) {
  auto process = std::make_unique<Process>();
  process->name = worker_name(rank);
  process->rank = rank;
  world_.start(std::move(process), [this, &worker](Process& me) {
    set_up(me, true);
    ThreadsNode node(*this, me);
    world_.await_start();
    worker(node);
    worker_left(me.rank);
  });
}

void Run::start_companion(Process& parent, const std::string& name, std::function<void(Node&)> fn) {
  auto process = std::make_unique<Process>();
  process->name = companion_name(name, parent.rank);
  process->kind = ProcessKind::companion;
  process->rank = parent.rank;
  process->parent = &parent;
  world_.start(std::move(process), [this, fn = std::move(fn)](Process& me) {
    set_up(me, false);
    ThreadsNode node(*this, me);
    fn(node);
  });
}

std::shared_ptr<ThreadsService> Run::open_service(
    const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory) {
  const std::lock_guard guard(services_mutex_);
  for (const auto& service : services_) {
    if (service->name() == name) return service;
  }
  auto service = std::make_shared<ThreadsService>(world_, name, factory());
  for (const int rank : left_) service->left(rank);
  auto process = std::make_unique<Process>();
  process->name = service_name(name);
  process->kind = ProcessKind::service;
  world_.start(std::move(process), [this, service = service.get()](Process& me) {
    pin_to(cores_);
    service->serve(me);
  });
  services_.push_back(service);
  return service;
}

void Run::worker_left(int rank) {
  const std::lock_guard guard(services_mutex_);
  left_.push_back(rank);
  for (const auto& service : services_) service->left(rank);
}

ClusterReport Run::report() const {
  ClusterReport report;
  for (const auto& process : world_.processes()) {
    if (process->kind == ProcessKind::service) continue;  // ends after the run
    report.elapsed = std::max(report.elapsed, process->since);
    if (process->kind != ProcessKind::worker) continue;
    report.workers.push_back({process->rank, process->device_text, process->ledger});
  }
  for (const auto& process : world_.processes()) {  // what a companion sends, its worker has sent
    if (process->kind != ProcessKind::companion) continue;
    report.workers[static_cast<std::size_t>(process->rank)].ledger.add_traffic(process->ledger);
  }
  report.fenced = world_.fenced();
  return report;
}

}  // namespace hetsgd::threads
