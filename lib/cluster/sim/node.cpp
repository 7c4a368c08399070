#include "cluster/sim/node.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "cluster/sim/interrupt.hpp"
#include "cluster/sim/monitor.hpp"
#include "cluster/sim/work.hpp"
#include "core/error.hpp"

namespace hetsgd::sim {

Device& SimDevices::of_worker(int rank) {
  const std::lock_guard lock(mutex_);
  auto& device = workers_[static_cast<std::size_t>(rank)];
  if (!device) device = make_cpu_device<float>(1);
  return *device;
}

std::unique_ptr<Device> SimDevices::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return make_cpu_device<float>(1);
  auto device = std::move(free_.back());
  free_.pop_back();
  return device;
}

void SimDevices::give_back(std::unique_ptr<Device> device) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(device));
}

namespace {

std::vector<int> ranks(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

SimRun::SimRun(const ClusterOptions& options_, SimDevices& devices_)
    : options(options_),
      devices(devices_),
      engine(options_.host_threads,
             [this](Process& process) {
               if (process.companion.empty()) services.left(process.rank);
             }),
      world{engine, Network(options_.network, options_.workers, options_.payload_scale)},
      services(world, options_.profile, options_.work_scale),
      everybody(std::make_shared<Group>(world, ranks(options_.workers))) {}

SimNode::SimNode(SimRun& run, int rank, bool companion)
    : run_(run), rank_(rank), is_companion_(companion), comm_(run.everybody, rank) {}

SimNode::~SimNode() {
  if (device_) run_.devices.give_back(std::move(device_));
}

Device& SimNode::device() {
  if (!is_companion_) return run_.devices.of_worker(rank_);
  if (!device_) device_ = run_.devices.take();
  return *device_;
}

SimNode::Duration SimNode::duration(const Work& work, ComputeKind kind) {
  const bool step = kind == ComputeKind::step;
  const DeviceProfile& profile = run_.options.profile;
  const Seconds at_full_speed =
      profile.seconds(step ? work : scaled(work, run_.options.work_scale));
  Seconds time = at_full_speed / run_.options.speed_of(rank_);
  if (step) {
    if (run_.options.scenario) {
      time = run_.options.scenario->stretched(rank_, ledger_.steps, now(), time);
    }
    ++ledger_.steps;
  }
  return {time, std::max(time - at_full_speed, Seconds(0))};
}

void SimNode::account(const Duration& spent) {
  ledger_.delay_requested += spent.delay;
  ledger_.delay_achieved += spent.delay;
  ledger_.compute += spent.time;
}

void SimNode::compute(const Work& work, ComputeKind kind, FunctionRef fn) {
  struct Computation {
    Engine& engine;
    Process& process;
    HostTask task;
  };
  Engine& engine = run_.engine;
  Computation computation{engine, engine.current("compute"), HostTask(fn)};
  if (!engine.tearing_down()) {
    const Duration whole = duration(work, kind);
    account(whole);
    engine.pool().submit(computation.task);
    engine.at(
        engine.now() + whole.time.count(),
        [](void* object) {
          auto& due = *static_cast<Computation*>(object);
          due.engine.pool().finish(due.task);
          due.engine.resume(due.process);
        },
        &computation);
  }
  engine.block([] { return "computes"; });
  if (computation.task.error()) std::rethrow_exception(computation.task.error());
}

bool SimNode::compute_unless(Interrupt& interrupt, const Work& work, ComputeKind kind,
                             FunctionRef fn) {
  auto& stop = static_cast<SimInterrupt&>(interrupt);
  Engine& engine = run_.engine;
  engine.current("compute_unless");
  if (stop.raised()) return false;
  HostTask task(fn);  // cut short: forgotten where it goes out of scope, or waited for if it runs
  const Seconds start = now();
  const Duration whole = duration(work, kind);
  if (!engine.tearing_down()) engine.pool().submit(task);
  const bool complete = stop.sleep_until((start + whole.time).count());
  const Seconds time = complete ? whole.time : now() - start;
  account({time, std::min(time, whole.delay)});
  if (!complete) return false;
  engine.pool().finish(task);
  if (task.error()) std::rethrow_exception(task.error());
  return true;
}

std::unique_ptr<Interrupt> SimNode::make_interrupt() {
  return std::make_unique<SimInterrupt>(run_.world);
}

void SimNode::sleep(Seconds duration) {
  HETSGD_CHECK_GE(duration.count(), 0.0);
  Engine& engine = run_.engine;
  const double called = engine.now();
  engine.sleep_until(called + duration.count());
  ledger_.wait += Seconds(engine.now() - called);
}

void SimNode::companion(std::string name, std::function<void(Node&)> fn) {
  HETSGD_CHECK(!name.empty());
  run_.engine.current("companion");
  if (run_.engine.tearing_down()) return;
  auto node = std::make_shared<SimNode>(run_, rank_, true);
  Ledger* ledger = &node->ledger_;
  run_.engine.spawn(rank_, std::move(name), ledger,
                    [node = std::move(node), fn = std::move(fn)] { fn(*node); });
}

std::unique_ptr<Monitor> SimNode::make_monitor() {
  return std::make_unique<SimMonitor>(run_.engine);
}

std::shared_ptr<ServicePort> SimNode::open_service(
    const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory) {
  return run_.services.open(rank_, name, factory);
}

void SimNode::fence(FunctionRef fn) {
  const auto start = std::chrono::steady_clock::now();
  run_.engine.off_the_clock(fn);
  run_.fenced_s += Seconds(std::chrono::steady_clock::now() - start).count();
}

void SimNode::fence_together(FunctionRef fn) {
  if (rank_ == 0) fence(fn);
}

}  // namespace hetsgd::sim
