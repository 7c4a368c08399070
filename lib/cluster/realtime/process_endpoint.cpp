#include "cluster/realtime/process_endpoint.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "cluster/blocking.hpp"
#include "cluster/endpoint.hpp"
#include "cluster/realtime/waiting.hpp"
#include "cluster/realtime/world.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::realtime {
namespace {

// When a segment begins: all workers go on at the latest of their clocks.
Seconds start_of(const Segment& segment) {
  Seconds start{0};
  for (const WorkerStart& worker : segment.start) start = std::max(start, worker.clock);
  return start;
}

}  // namespace

// RealtimeMonitor: lock and condition on the world's mutex, so that a deadlock report sees which
// process waits for what.
//
// A process and one monitor; holder_ names the process that holds it, queue_ and waiters_ list the
// others:
//
//             lock(), taken               holder_ is null
//   outside ---------------> queued ----------------------> holds
//      |  ^                                                 ^ |  |
//      |  |  lock(), free                                   | |  | wait(), not ready: gives it back
//      +--|-------------------------------------------------+ |  v
//         |  unlock()                                         |  waiting --> queued, or holds
//         +---------------------------------------------------+          notify_all()
//
// It is not a std::mutex, because its owner may block in the vocabulary with it held, be stopped by
// a pause or be unwound. A deadlock report also names the processes that want it.
//
// Pauses: lock() is a safepoint before the lock is taken. The function of a pause must not wait,
// as the holder of the monitor would be stopped: there lock() takes a free monitor at once and
// throws a CheckFailure that names the holder of any other.
//
// Abort: when wait() throws it may have given the lock back. The unlock() of the caller's guard
// that follows is then harmless.

class RealtimeMonitor final : public Monitor {
 public:
  explicit RealtimeMonitor(World& world) : world_(world) {}

  // Throws CheckFailure if the calling process holds it already. Waiting is `wait` in its
  // breakdown, here and in wait().
  void lock_raw() override;
  void unlock_raw() override;
  // ready() is called by the waiting process itself, with the monitor held and without the world's
  // mutex: a slow one holds up the processes that want the monitor, and no others. It is called
  // again after each notify_all().
  void wait_raw(const std::function<bool()>& ready, std::string_view what) override;
  // With or without the monitor held, from any process of the run.
  void notify_all_raw() override;

 private:
  // Remembers the notification. The wake-up alone would not do: the end of a pause wakes everybody,
  // too.
  struct Waiter {
    Process* process = nullptr;
    bool notified = false;
  };
  // Both under the world's mutex, which also guards the members below.
  void acquire(World::Lock& guard);
  void release();

  World& world_;
  Process* holder_ = nullptr;     // null: it is free
  std::vector<Process*> queue_;   // processes that wait for the lock
  std::vector<Waiter*> waiters_;  // wait for a notification; each on its process's stack
};

// world_.enter() would refuse the function of a pause and park everybody else until the pause is
// over; so what runs in a pause takes the plain mutex.
void RealtimeMonitor::lock_raw() {
  Process& me = World::current();
  if (me.in_pause) {  // it may not wait: the holder of the monitor is stopped
    const auto guard = world_.lock();
    if (holder_) {
      throw CheckFailure(me.name + " locks a monitor inside of a pause, but " + holder_->name +
                         " holds it");
    }
    holder_ = &me;
    return;
  }
  auto guard = world_.enter();
  acquire(guard);
}

// World's mutex held, before and after. block() returns with ready() true under the mutex, so
// nobody can have taken the lock between the look and the assignment.
void RealtimeMonitor::acquire(World::Lock& guard) {
  Process& me = World::current();
  if (holder_ == &me) throw CheckFailure(me.name + " locks a monitor that it holds already");
  if (holder_) {
    const Enlisted queued(queue_, me);
    const Until free([&] { return holder_ == nullptr; }, [] { return blocked_on_lock(); });
    world_.block(guard, free);
  }
  holder_ = &me;
}

// Not a safepoint: it is called by destructors of guards, also while an exception passes through.
void RealtimeMonitor::unlock_raw() {
  const auto guard = world_.lock();
  // wait() has thrown, and the guard of the caller unlocks what it no longer holds.
  if (holder_ != &World::current()) {
    HETSGD_CHECK(world_.aborting());
    return;
  }
  release();
}

// Every process that wants the lock is woken, and the first that runs gets it; the others go back
// to sleep. Queues are short, and handing the lock to one of them would keep the rest waiting as
// long as that one is held back by a pause.
void RealtimeMonitor::release() {
  holder_ = nullptr;
  for (Process* process : queue_) world_.wake(*process);
}

// The lock is given back and the waiter is listed in one critical section: a process that makes
// ready() true needs the lock for it, so its notify_all() finds the waiter in the list.
void RealtimeMonitor::wait_raw(const std::function<bool()>& ready, std::string_view what) {
  Process& me = World::current();
  while (!ready()) {
    // lock(), not enter(): a process that parked for a pause here would hold the monitor, which the
    // function of a pause may lock. block() sees an abort.
    auto guard = world_.lock();
    HETSGD_CHECK(holder_ == &me);
    release();
    Waiter waiter{&me};
    {
      const Enlisted waiting(waiters_, waiter);
      const Until notified([&] { return waiter.notified; },
                           [&] { return blocked_in_monitor(what); });
      world_.block(guard, notified);
    }
    acquire(guard);
  }
}

// Waiters stay in the list until they have run. A second notification is no harm.
void RealtimeMonitor::notify_all_raw() {
  const auto guard = world_.lock();
  for (Waiter* waiter : waiters_) {
    waiter->notified = true;
    world_.wake(*waiter->process);
  }
}

ProcessEndpoint::ProcessEndpoint(World& world, const ClusterOptions& options,
                                 const Segment& segment, Process& process, HelperStarter& tasks)
    : world_(world),
      process_(process),
      options_(options),
      segment_(segment),
      tasks_(tasks),
      speed_(options.speed_of(segment.id(process.rank))),
      is_set_up_(process.kind != ProcessKind::worker || !segment.goes_on()) {
  if (is_set_up_) find_own_loss();
  if (!options_.scenario || !options_.scenario->has_gaps()) return;
  process_.reachable = [&scenario = *options_.scenario, worker = id()](Seconds now) {
    return scenario.reachable(worker, now);
  };
}

void ProcessEndpoint::find_own_loss() {
  if (process_.kind != ProcessKind::worker || !options_.scenario) return;
  // From the start of the segment: on a busy machine this thread may begin after the worker has
  // failed and returned.
  if (const auto lost = options_.scenario->lost(id(), start_of(segment_))) lost_at_ = lost->at;
}

void ProcessEndpoint::lose_if_due() {
  if (now() < lost_at_ || !world_.is_loss_of_segment(lost_at_)) return;
  sleep_until(world_, now() + options_.detect);
  lose();
  World::Lock guard = world_.lock();
  world_.halt_for_loss(guard);
}

void fill_in_lost_workers(const LostWorkers& loss, const ClusterOptions& options,
                          Segment& segment) {
  segment.detected = loss.detected;
  const int size = segment.view.empty() ? options.workers : static_cast<int>(segment.view.size());
  const Seconds start = start_of(segment);
  for (int rank = 0; rank < size; ++rank) {
    const int id = segment.id(rank);
    // A busy machine may notice a loss only after the worker has returned.
    const auto lost = options.scenario->lost(id, start);
    if (lost && lost->at <= loss.detected) segment.lost.emplace(id, lost->at);
  }
}

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
// measured time. The token is looked at before fn, after it and in every slice of the delay. The
// step is counted even if it was cut, since the scenario has been asked for its delay.
bool ProcessEndpoint::compute_raw(CancellationToken* token, const Work&, ComputeKind kind,
                                  FunctionRef fn) {
  const std::atomic<bool>* const cancelled =
      token ? &static_cast<RealtimeCancellationToken*>(token)->cancelled() : nullptr;
  world_.safepoint();
  lose_if_due();
  if (cancelled && *cancelled) return false;
  const Seconds start = now();
  run_to_the_end(fn);
  const Seconds duration = now() - start;
  const Seconds extra = straggle(kind, start, duration);
  bool complete = !cancelled || !*cancelled;
  if (complete && extra > Seconds(0)) complete = delay(start + duration, extra, cancelled);
  process_.spend(
      kind == ComputeKind::transfer ? &TimeBreakdown::communicate : &TimeBreakdown::compute,
      now() - start);
  world_.safepoint();
  return complete;
}

std::unique_ptr<CancellationToken> ProcessEndpoint::make_cancellation_token() {
  return std::make_unique<RealtimeCancellationToken>();
}

// The time that the scenario and the worker's speed add to a computation that took `duration`. The
// scenario is asked with the number of the step, as in `sim`: one that depends on nothing else
// slows the same worker down in the same iteration on every cluster.
Seconds ProcessEndpoint::straggle(ComputeKind kind, Seconds start, Seconds duration) {
  if (kind == ComputeKind::transfer) return Seconds(0);
  const Seconds slowed = duration / speed_;
  if (kind == ComputeKind::vector || kind == ComputeKind::stage) return slowed - duration;
  std::optional<std::uint64_t> iteration;
  if (kind == ComputeKind::step) iteration = process_.breakdown.steps++;
  if (!options_.scenario) return slowed - duration;
  return options_.scenario->stretched(id(), iteration, start, slowed) - duration;
}

// Sleeps end late. The excess of one is taken off the next (delay_owed < 0), so that the sum of all
// delays is what the scenario asked for. At any time delay_owed = delay_requested - delay_achieved.
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
void ProcessEndpoint::sleep_raw(Seconds duration) {
  world_.safepoint();
  const Seconds start = now();
  sleep_until(world_, start + duration);
  process_.spend(&TimeBreakdown::wait, now() - start);
  world_.safepoint();
}

void ProcessEndpoint::background_task_raw(std::string name, std::function<void(Endpoint&)> fn) {
  if (!is_set_up_) return held_.hold(std::move(name), std::move(fn));
  world_.safepoint();
  process_.device->synchronize();  // the background task's device may go on where this one stands
  tasks_.start_helper(process_, name, std::move(fn), ProcessKind::background_task);
}

void ProcessEndpoint::go_on_raw() {
  HETSGD_CHECK(!is_set_up_);
  const WorkerStart& start = segment_.start[at(process_.rank)];
  double latest_s = start.clock.count();
  if (size() > 1) comm().make_raw(all_reduce(std::span(&latest_s, 1), ReduceOp::max));
  const Seconds clock(latest_s);
  world_.set_time_after_pause(clock);
  pause_raw(true, [] {});
  process_.breakdown = start.spent;
  process_.breakdown.wait += clock - start.clock;
  is_set_up_ = true;
  find_own_loss();
  held_.start_all([this](std::string name, HeldTasks::Body body) {
    background_task_raw(std::move(name), std::move(body));
  });
}

std::unique_ptr<Monitor> ProcessEndpoint::make_monitor_raw() {
  return std::make_unique<RealtimeMonitor>(world_);
}

void check_speeds(const ClusterOptions& options, std::string_view cluster) {
  for (const double speed : options.speed) {
    // Written so that NaN fails, too.
    if (!(speed > 0)) throw usage_error("--speed: found {}, expected numbers above 0", speed);
    if (speed > 1) {
      refuse("--speed", fmt::format("{} with --cluster {}", speed, cluster),
             "at most 1, because real workers can only be slowed down",
             "divide all speeds by the largest");
    }
  }
}

}  // namespace hetsgd::realtime
