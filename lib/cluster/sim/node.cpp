#include "cluster/sim/node.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

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

double SimRun::speed(int rank) const {
  const auto& list = options.speed;
  if (list.empty()) return 1;
  return list[std::min(static_cast<std::size_t>(rank), list.size() - 1)];
}

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

Seconds SimNode::charge(const Work& work, ComputeKind kind) {
  const bool step = kind == ComputeKind::step;
  const DeviceProfile& profile = run_.options.profile;
  const Seconds at_full_speed =
      profile.seconds(step ? work : scaled(work, run_.options.work_scale));
  Seconds time = at_full_speed / run_.speed(rank_);
  if (step) {
    if (run_.options.scenario) {
      time = run_.options.scenario->stretched(rank_, ledger_.steps, now(), time);
    }
    ++ledger_.steps;
  }
  const Seconds delay = std::max(time - at_full_speed, Seconds(0));
  ledger_.delay_requested += delay;
  ledger_.delay_achieved += delay;
  ledger_.compute += time;
  return time;
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
    const double end = engine.now() + charge(work, kind).count();
    engine.pool().submit(computation.task);
    engine.at(
        end,
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
