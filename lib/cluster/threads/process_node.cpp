#include "cluster/threads/process_node.hpp"

#include <algorithm>

#include "cluster/threads/monitor.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

ProcessNode::ProcessNode(World& world, const ClusterOptions& options, Process& process)
    : world_(world), process_(process), options_(options), speed_(options.speed_of(process.rank)) {}

// A computation has ended when its results are there, for the clock and for everybody else.
void ProcessNode::run_to_the_end(FunctionRef fn) {
  fn();
  process_.device->synchronize();
}

void ProcessNode::compute(const Work& work, ComputeKind kind, FunctionRef fn) {
  static_cast<void>(work);  // takes as long as it takes
  world_.safepoint();
  const Seconds start = now();
  run_to_the_end(fn);
  const Seconds duration = now() - start;
  const Seconds extra = straggle(kind, start, duration);
  if (extra > Seconds(0)) delay(start + duration, extra);
  process_.ledger.compute += now() - start;
  world_.safepoint();
}

bool ProcessNode::compute_unless(Interrupt& interrupt, const Work&, ComputeKind kind,
                                 FunctionRef fn) {
  const std::atomic<bool>& raised = static_cast<ThreadsInterrupt&>(interrupt).raised();
  world_.safepoint();
  if (raised) return false;
  const Seconds start = now();
  run_to_the_end(fn);
  const Seconds duration = now() - start;
  const Seconds extra = straggle(kind, start, duration);
  bool complete = !raised;
  if (complete && extra > Seconds(0)) complete = delay(start + duration, extra, &raised);
  process_.ledger.compute += now() - start;
  world_.safepoint();
  return complete;
}

std::unique_ptr<Interrupt> ProcessNode::make_interrupt() {
  return std::make_unique<ThreadsInterrupt>();
}

// What the scenario and the worker's speed add to a computation that took `duration`.
Seconds ProcessNode::straggle(ComputeKind kind, Seconds start, Seconds duration) {
  const Seconds slowed = duration / speed_;
  if (kind == ComputeKind::vector) return slowed - duration;
  const std::uint64_t iteration = process_.ledger.steps++;
  if (!options_.scenario) return slowed - duration;
  return options_.scenario->stretched(process_.rank, iteration, start, slowed) - duration;
}

bool ProcessNode::delay(Seconds from, Seconds requested, const std::atomic<bool>* unless) {
  Ledger& ledger = process_.ledger;
  process_.delay_owed += requested;
  ledger.delay_requested += requested;
  if (process_.delay_owed <= Seconds(0)) return true;  // earlier delays took that much too long
  const bool complete = world_.sleep_until(from + process_.delay_owed, unless);
  const Seconds achieved = now() - from;
  process_.delay_owed -= achieved;
  ledger.delay_achieved += achieved;
  if (!complete) {  // nobody asks for the rest any more
    ledger.delay_requested -= process_.delay_owed;
    process_.delay_owed = Seconds(0);
  }
  return complete;
}

void ProcessNode::sleep(Seconds duration) {
  world_.safepoint();
  const Seconds start = now();
  world_.sleep_until(start + duration);
  process_.ledger.wait += now() - start;
  world_.safepoint();
}

std::unique_ptr<Monitor> ProcessNode::make_monitor() {
  return std::make_unique<ThreadsMonitor>(world_);
}

void check_speeds(const ClusterOptions& options, std::string_view cluster) {
  for (const double speed : options.speed) {
    if (!(speed > 0)) throw usage_error("--speed: found {}, expected numbers above 0", speed);
    if (speed > 1) {
      throw with_hint(
          usage_error("--speed: found {}; --cluster {} can slow a worker down, not speed it up",
                      speed, cluster),
          "divide all speeds by the largest");
    }
  }
}

}  // namespace hetsgd::threads
