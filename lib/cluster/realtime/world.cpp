#include "cluster/realtime/world.hpp"

#include <sys/prctl.h>

#include <algorithm>

#include "cluster/blocking.hpp"
#include "cluster/endpoint.hpp"
#include "core/error.hpp"
#include "core/threads.hpp"

namespace hetsgd::realtime {

namespace {

thread_local Process* current_process = nullptr;

// A blocked process looks for its signal this long before it sleeps in the kernel: about what a
// wake-up costs, so that waiting never costs more than twice what the better of the two choices
// does (competitive spinning).
constexpr std::int64_t kSpinNs = 30'000;

}  // namespace

World::World(int cores) : cores_(cores) {}

Process& World::current() {
  if (!current_process) {
    throw CheckFailure(
        "an Endpoint, Comm, Monitor or service is used by a thread that is no process of the run");
  }
  return *current_process;
}

// --- life of processes

Process& World::start(std::unique_ptr<Process> process, std::function<void(Process&)> body) {
  Lock guard = lock();
  Process& me = *process;
  me.clock = &clock_;
  // Counted before the thread exists, else the starter, which may block at once, looks deadlocked.
  const auto count = [&](int n) {
    if (keeps_run(me.kind)) live_ += n;
    if (me.parent) me.parent->live_background_tasks += n;
    running_ += n;
    at_large_ += n;
  };
  count(1);
  try {
    me.number = static_cast<int>(processes_.size());
    processes_.push_back(std::move(process));
    me.thread = start_thread<std::thread>(me.name, [this, &me, body = std::move(body)] {
      current_process = &me;
      // In nanoseconds: how late the kernel may end a sleep in order to join it with others.
      prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
      try {
        body(me);
      } catch (const Unwind&) {
      } catch (...) {
        abort(std::current_exception());
      }
      finish(me);
    });
  } catch (const Error&) {
    count(-1);
    processes_.pop_back();
    throw;
  }
  return me;
}

void World::await_start() {
  Process& me = current();
  Lock guard = lock();
  ++set_up_;
  owner_woken_.notify_one();
  me.woken.wait(guard, [&] { return started_ || aborting_; });
  if (aborting_) unwind(guard);
}

// The thread of the run's owner goes through the run's phases: workers are set up; the clock runs;
// only services are left (finishing_); nobody is left.
void World::run(int workers, Hooks hooks) {
  Lock guard = lock();
  aborted_ = std::move(hooks.aborted);
  if (aborting_ && aborted_) aborted_(error_);  // it was before anybody could be told
  owner_woken_.wait(guard, [&] { return set_up_ == workers || aborting_; });
  std::int64_t origin = TrainingClock::monotonic_ns();
  if (hooks.start) {  // it waits for other ranks, which must not keep this world's mutex
    guard.unlock();
    origin = hooks.start();
    guard = lock();
  }
  clock_.start(origin);
  started_ = true;
  for (auto& process : processes_) process->woken.notify_one();
  owner_woken_.wait(guard, [&] { return live_ == 0; });
  guard.unlock();
  if (hooks.ended) hooks.ended();
  // No new process can start now; services end by themselves.
  for (auto& process : processes_) process->thread.join();
  if (error_) std::rethrow_exception(error_);
}

void World::finish(Process& me) {
  Lock guard = lock();
  fail_if_caught(me);
  me.since = now();
  me.ended = true;
  --running_;
  --at_large_;
  if (me.parent) {
    --me.parent->live_background_tasks;
    me.parent->woken.notify_one();
  }
  if (keeps_run(me.kind) && --live_ == 0) {
    finishing_ = true;
    wake_all();
    owner_woken_.notify_one();
  }
  if (aborting_) wake_all();  // who waits for its end
  pause_if_stopped();
  fail_if_deadlocked();
}

void World::abort(std::exception_ptr error) {
  Lock guard = lock();
  abort_locked(std::move(error));
}

void World::abort_locked(std::exception_ptr error) {
  if (aborting_ && (unwound_ != current_process || error_)) return;
  error_ = std::move(error);
  begin_abort();
  if (aborted_) aborted_(error_);
}

// --- blocking

World::Lock World::lock() {
  // The mutex is held briefly, for small copies at most: trying again is cheaper than a sleep in
  // the kernel.
  Lock guard(mutex_, std::try_to_lock);
  for (int tries = 0; !guard.owns_lock() && tries < 100 && cores_ > 1; ++tries) {
    relax();
    static_cast<void>(guard.try_lock());
  }
  if (!guard.owns_lock()) guard.lock();
  return guard;
}

World::Lock World::enter() {
  Process& me = current();
  if (InComputation::now())
    throw CheckFailure(me.name + " uses the cluster inside of a computation");
  Lock guard = lock();
  if (attention_.load(std::memory_order_relaxed)) {
    if (me.in_pause) throw CheckFailure(me.name + " uses the cluster inside of a pause");
    park(guard);
  }
  return guard;
}

void World::safepoint() {
  if (attention_.load(std::memory_order_relaxed) || InComputation::now()) [[unlikely]]
    static_cast<void>(enter());
}

void World::park(Lock& guard) {
  const Until wait([&] { return !pause_.is_on(); }, [] { return "stopped by a pause"; });
  block(guard, wait);
}

// A wait can be ready before a pause ends: the process then stays where it is, signalled, until
// nothing holds it back (await_signal).
void World::block(Lock& guard, const Wait& wait, Seconds TimeBreakdown::*account) {
  Process& me = current();
  const auto unwinds = [&] { return aborting_ && wait.interruptible(); };
  if (!held(me)) {
    if (unwinds()) unwind(guard);
    if (wait.ready()) return;
  }
  const Seconds since = now();
  me.wait = &wait;
  me.since = since;
  --at_large_;
  do {
    go_to_sleep(me);
    await_signal(guard, me);
  } while (!unwinds() && !wait.ready());
  ++at_large_;
  me.wait = nullptr;
  if (account) me.spend(account, now() - since);
  if (unwinds()) unwind(guard);
}

// A background task may use what stands on its worker's stack, so the background tasks end first.
void World::unwind(Lock& guard) {
  Process& me = current();
  // It was granted a pause that it will not use: the others, services too, must not wait for it.
  if (pause_.is_held_by(me)) end_pause();
  me.woken.wait(guard, [&] { return me.live_background_tasks == 0; });
  throw Unwind{};
}

// From here on `me` does not run until it is signalled.
void World::go_to_sleep(Process& me) {
  me.signalled.store(false, std::memory_order_relaxed);
  --running_;
  pause_if_stopped();
  fail_if_deadlocked();
}

// Spins first, without the mutex, where a core is free for it: that is why `signalled` is atomic.
// During a pause nobody spins, since the clock that would be saved stands.
void World::await_signal(Lock& guard, Process& me) {
  const auto go = [&] { return me.signalled.load(std::memory_order_relaxed) && !held(me); };
  if (go()) return;
  if (running_ + spinning_ < cores_ && !pause_.is_on()) {
    ++spinning_;
    guard.unlock();
    const std::int64_t end = TrainingClock::monotonic_ns() + kSpinNs;
    do {
      for (int i = 0; i < 16 && !me.signalled.load(std::memory_order_relaxed); ++i) relax();
    } while (!me.signalled.load(std::memory_order_relaxed) && TrainingClock::monotonic_ns() < end);
    guard = lock();
    --spinning_;
    if (go()) return;
  }
  me.in_condition_wait = true;
  me.woken.wait(guard, go);
  me.in_condition_wait = false;
}

// The signalled process is counted as running from here on, not from when it does run: between the
// two the world is no deadlock.
void World::wake(Process& process) {
  if (!process.wait || process.signalled.load(std::memory_order_relaxed)) return;
  ++running_;
  process.signalled.store(true, std::memory_order_relaxed);
  if (process.in_condition_wait) process.woken.notify_one();
}

void World::wake_all() {
  for (auto& process : processes_) {
    wake(*process);
    process->woken.notify_one();  // held back by a pause, or before the start
  }
}

void World::fail_if_deadlocked() {
  if (running_ > 0 || live_ == 0 || aborting_) return;
  if (waits_for_others_ > 0 || pause_.is_outside()) return;  // other ranks can end it
  std::vector<BlockedProcess> report;
  for (const auto& process : processes_) report.push_back(*process->blocked());
  abort_locked(std::make_exception_ptr(deadlock_error(report)));
}

// --- waits that nobody here ends

void World::step_aside(Lock&) {
  current().since = now();
  --at_large_;
  pause_if_stopped();
}

void World::await_end_of_pause(Lock& guard) {
  const Process& me = current();
  current().woken.wait(guard, [&] { return !held(me); });
}

void World::come_back(Lock& guard) {
  await_end_of_pause(guard);
  ++at_large_;
}

void World::block_for_others(Lock& guard, const Wait& wait) {
  struct Counted {  // the mutex is held at both ends
    int& count;
    explicit Counted(int& waits) : count(waits) { ++count; }
    ~Counted() { --count; }
  } counted(waits_for_others_);
  block(guard, wait);
}

std::optional<Seconds> World::blocked_since(std::vector<BlockedProcess>& waiting) {
  const Lock guard = lock();
  if (!started_ || aborting_ || pause_.is_on()) return std::nullopt;
  Seconds since{0};
  for (const auto& process : processes_) {
    auto blocked = process->blocked();
    if (!blocked) return std::nullopt;
    if (process->kind != ProcessKind::service) since = std::max(since, process->since);
    waiting.push_back(std::move(*blocked));
  }
  return since;
}

// --- pauses

void World::while_paused(FunctionRef fn) {
  Lock guard = enter();  // returns when no other pause is on
  stop_for(current());
  run_stopped(guard, fn);
}

void World::stop_for(Process& owner) {
  pause_.begin(owner);
  attention_ = true;
}

void World::pause_if_stopped() {
  if (at_large_ > 0) return;
  if (Process* const holder = pause_.all_stopped()) wake(*holder);
}

void World::end_pause(std::int64_t at) {
  pause_.end(at);
  attention_ = aborting_.load();
  wake_all();
}

void World::run_stopped(Lock& guard, FunctionRef fn) {
  const Until stopped([&] { return pause_.stands(); },
                      [] { return "waits for the others to stop"; });
  block(guard, stopped);
  run_alone(guard, fn, [this] { end_pause(); });
}

// While nobody else runs. after() is called with the mutex when fn has ended, however.
template <class After>
void World::run_alone(Lock& guard, FunctionRef fn, After after) {
  struct Ended {
    Lock& guard;
    Process& me;
    After& after;
    ~Ended() {
      guard.lock();
      me.in_pause = false;
      after();
    }
  };
  Process& me = current();
  me.in_pause = true;
  guard.unlock();
  {
    const Ended ended{guard, me, after};
    fn();
  }
  if (aborting_) unwind(guard);
}

// --- pauses of all ranks

void World::stop_from_outside() {
  Lock guard = lock();
  stop_from_outside(guard);
}

void World::stop_from_outside(Lock&) {
  if (aborting_ || pause_.is_on()) return;  // stopped from outside already
  pause_.begin_outside();
  attention_ = true;
  pause_if_stopped();
}

std::int64_t World::stopped_at() {
  const Lock guard = lock();
  return pause_.stopped_at();
}

void World::freeze_from_outside(std::int64_t at) {
  const Lock guard = lock();
  if (!aborting_) pause_.freeze(at);
}

// From `outside` the right to run goes to the process, and run_granted gives it back.
void World::grant(Process& process) {
  if (aborting_) return;  // it is unwound, and nobody would release the others
  pause_.grant(process);
  wake(process);
  process.woken.notify_one();  // it may have been signalled before, and held back since
}

void World::run_granted(Lock& guard, FunctionRef fn) {
  run_alone(guard, fn, [this] {
    pause_.give_back();
    if (aborting_) end_pause();
  });
}

void World::resume_from_outside(Lock&, std::int64_t at) {
  if (pause_.is_outside()) end_pause(at);
}

}  // namespace hetsgd::realtime
