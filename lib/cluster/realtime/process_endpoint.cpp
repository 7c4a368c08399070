#include "cluster/realtime/process_endpoint.hpp"

#include <algorithm>
#include <optional>

#include "cluster/endpoint.hpp"
#include "cluster/realtime/monitor.hpp"
#include "cluster/realtime/waiting.hpp"
#include "core/error.hpp"

namespace hetsgd::realtime {

ProcessEndpoint::ProcessEndpoint(World& world, const ClusterOptions& options, Process& process)
    : world_(world), process_(process), options_(options), speed_(options.speed_of(process.rank)) {}

// A computation has ended when its results are there, for the clock and for everybody else.
void ProcessEndpoint::run_to_the_end(FunctionRef fn) {
  {
    const InComputation in_computation;
    fn();
  }
  process_.device->synchronize();
}

// The delay is part of the computation, and so of `compute` in the breakdown: a straggler is a
// worker that computes slowly, not one that waits for others. Safepoints stand outside of the
// measured time.
void ProcessEndpoint::compute(const Work& work, ComputeKind kind, FunctionRef fn) {
  static_cast<void>(work);  // takes as long as it takes
  world_.safepoint();
  const Seconds start = now();
  run_to_the_end(fn);
  const Seconds duration = now() - start;
  const Seconds extra = straggle(kind, start, duration);
  if (extra > Seconds(0)) delay(start + duration, extra);
  process_.spend(
      kind == ComputeKind::transfer ? &TimeBreakdown::communicate : &TimeBreakdown::compute,
      now() - start);
  world_.safepoint();
}

// As compute(), with a look at the token before fn, after it and in every slice of the delay. The
// step is counted even if it was cut, since the scenario has been asked for its delay.
bool ProcessEndpoint::compute_cancellable(CancellationToken& token, const Work&, ComputeKind kind,
                                          FunctionRef fn) {
  const std::atomic<bool>& cancelled = static_cast<ThreadsCancellationToken&>(token).cancelled();
  world_.safepoint();
  if (cancelled) return false;
  const Seconds start = now();
  run_to_the_end(fn);
  const Seconds duration = now() - start;
  const Seconds extra = straggle(kind, start, duration);
  bool complete = !cancelled;
  if (complete && extra > Seconds(0)) complete = delay(start + duration, extra, &cancelled);
  process_.spend(&TimeBreakdown::compute, now() - start);
  world_.safepoint();
  return complete;
}

std::unique_ptr<CancellationToken> ProcessEndpoint::make_cancellation_token() {
  return std::make_unique<ThreadsCancellationToken>();
}

// What the scenario and the worker's speed add to a computation that took `duration`. The scenario
// is asked with the number of the step, as in `sim`: one that depends on nothing else slows the
// same worker down in the same iteration on every cluster.
Seconds ProcessEndpoint::straggle(ComputeKind kind, Seconds start, Seconds duration) {
  if (kind == ComputeKind::transfer) return Seconds(0);
  const Seconds slowed = duration / speed_;
  if (kind == ComputeKind::vector || kind == ComputeKind::stage) return slowed - duration;
  std::optional<std::uint64_t> iteration;
  if (kind == ComputeKind::step) iteration = process_.breakdown.steps++;
  if (!options_.scenario) return slowed - duration;
  return options_.scenario->stretched(process_.rank, iteration, start, slowed) - duration;
}

// Sleeps end late. What one took too long is owed by the next (delay_owed < 0), so that the sum of
// all delays is what the scenario asked for. delay_owed is that difference at any time:
//   delay_owed = delay_requested - delay_achieved
bool ProcessEndpoint::delay(Seconds from, Seconds requested, const std::atomic<bool>* unless) {
  TimeBreakdown& breakdown = process_.breakdown;
  process_.delay_owed += requested;
  breakdown.delay_requested += requested;
  if (process_.delay_owed <= Seconds(0)) return true;  // earlier delays took that much too long
  // The delay begins where the computation ended, not where this line is reached: what happens in
  // between is part of it. A pause moves both, as `from` is an instant of the training clock.
  const bool complete = sleep_until(world_, from + process_.delay_owed, unless);
  const Seconds achieved = now() - from;
  process_.delay_owed -= achieved;
  breakdown.delay_achieved += achieved;
  if (!complete) {  // nobody asks for the rest any more
    breakdown.delay_requested -= process_.delay_owed;
    process_.delay_owed = Seconds(0);
  }
  return complete;
}

// A sleep that an algorithm asks for is no straggler delay: it counts as `wait`.
void ProcessEndpoint::sleep(Seconds duration) {
  world_.safepoint();
  const Seconds start = now();
  sleep_until(world_, start + duration);
  process_.spend(&TimeBreakdown::wait, now() - start);
  world_.safepoint();
}

std::unique_ptr<Monitor> ProcessEndpoint::make_monitor() {
  return std::make_unique<ThreadsMonitor>(world_);
}

void check_speeds(const ClusterOptions& options, std::string_view cluster) {
  for (const double speed : options.speed) {
    // Written so that NaN fails, too.
    if (!(speed > 0)) throw usage_error("--speed: found {}, expected numbers above 0", speed);
    if (speed > 1) {
      throw with_hint(
          usage_error("--speed: found {}; --cluster {} can slow a worker down, not speed it up",
                      speed, cluster),
          "divide all speeds by the largest");
    }
  }
}

}  // namespace hetsgd::realtime
