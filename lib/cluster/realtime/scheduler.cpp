#include "cluster/realtime/scheduler.hpp"

#include <sys/prctl.h>

#include <algorithm>

#include "cluster/endpoint.hpp"
#include "core/error.hpp"

namespace hetsgd::realtime {

namespace {

thread_local Process* current_process = nullptr;

// A blocked process looks for its signal this long before it sleeps in the kernel: about what a
// wake-up costs, so that waiting never costs more than twice what the better of the two choices
// does (competitive spinning).
constexpr std::int64_t kSpinNs = 30'000;

}  // namespace

Process* Scheduler::current_or_null() { return current_process; }

Process& Scheduler::current() {
  if (!current_process) {
    throw CheckFailure(
        "an Endpoint, Comm, Monitor or service is used by a thread that is no process of the run");
  }
  return *current_process;
}

// --- for the world

void Scheduler::count(const Process& me, int n) {
  if (keeps_run(me.kind)) live_ += n;
  if (me.parent) me.parent->live_helpers += n;
  running_ += n;
  at_large_ += n;
}

Process& Scheduler::add(std::unique_ptr<Process> process) {
  Process& me = *process;
  me.clock = &clock_;
  me.number = static_cast<int>(processes_.size());
  processes_.push_back(std::move(process));
  count(me, 1);
  return me;
}

void Scheduler::take_back(Process& last) {
  count(last, -1);
  processes_.pop_back();
}

void Scheduler::enter_process(Process& me) {
  current_process = &me;
  // In nanoseconds: how late the kernel may end a sleep in order to join it with others.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
}

void Scheduler::leave(Process& me) {
  me.since = now();
  me.ended = true;
  count(me, -1);
  if (me.parent) me.parent->woken.notify_one();
}

void Scheduler::start_clock(std::int64_t origin) {
  clock_.start(origin);
  for (auto& process : processes_) process->woken.notify_one();
}

void Scheduler::begin_losing(Seconds detected) {
  losing_ = true;
  detected_ = detected;
  attention_ = true;
  fail_if_deadlocked();  // all may wait already
}

void Scheduler::begin_abort() {
  aborting_ = true;
  attention_ = true;
  if (pause_.is_outside()) end_pause();  // nobody can be relied on to end it
  wake_all();
}

// --- blocking

Scheduler::Lock Scheduler::lock() {
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

Scheduler::Lock Scheduler::enter() {
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

void Scheduler::safepoint() {
  if (attention_.load(std::memory_order_relaxed) || InComputation::now()) [[unlikely]]
    static_cast<void>(enter());
}

void Scheduler::park(Lock& guard) {
  const Until wait([&] { return !pause_.is_on(); }, [] { return "stopped by a pause"; });
  block(guard, wait);
}

// A wait can be ready before a pause ends: the process then stays where it is, signalled, until
// nothing holds it back (await_signal).
void Scheduler::block(Lock& guard, const Wait& wait, Seconds TimeBreakdown::*account) {
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
void Scheduler::unwind(Lock& guard) {
  Process& me = current();
  // It was granted a pause that it will not use: the others, services too, must not wait for it.
  if (pause_.is_held_by(me)) end_pause();
  me.woken.wait(guard, [&] { return me.live_helpers == 0; });
  throw Unwind{};
}

bool Scheduler::is_loss_of_segment(Seconds at) {
  const Lock guard = lock();
  return !losing_ || at <= detected_;
}

void Scheduler::halt_for_loss(Lock& guard) {
  block(guard, Until([] { return false; }, [] { return "the view has lost a worker"; }));
  unwind(guard);  // the wait is never ready
}

// From here on `me` does not run until it is signalled.
void Scheduler::go_to_sleep(Process& me) {
  me.signalled.store(false, std::memory_order_relaxed);
  --running_;
  pause_if_stopped();
  fail_if_deadlocked();
}

// Spins first, without the mutex, where a core is free for it: that is why `signalled` is atomic.
// During a pause nobody spins, since the clock that would be saved stands.
void Scheduler::await_signal(Lock& guard, Process& me) {
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
void Scheduler::wake(Process& process) {
  if (!process.wait || process.signalled.load(std::memory_order_relaxed)) return;
  ++running_;
  process.signalled.store(true, std::memory_order_relaxed);
  if (process.in_condition_wait) process.woken.notify_one();
}

void Scheduler::wake_all() {
  for (auto& process : processes_) {
    wake(*process);
    process->woken.notify_one();  // held back by a pause, or before the start
  }
}

void Scheduler::fail_if_deadlocked() {
  if (live_ == 0 || aborting_) return;
  // No pause is granted to anybody after a loss, so one that is asked for ends nothing.
  if (losing_ && running_ == idle_) return all_halted();
  if (running_ > 0 || losing_) return;
  if (waits_for_others_ > 0 || pause_.is_outside()) return;  // other ranks can end it
  std::vector<BlockedProcess> report;
  for (const auto& process : processes_) report.push_back(*process->blocked());
  deadlocked(std::make_exception_ptr(deadlock_error(report)));
}

// --- waits that nobody here ends

void Scheduler::step_aside(Lock&, bool idles) {
  current().since = now();
  --at_large_;
  pause_if_stopped();
  if (!idles) return;
  ++idle_;
  fail_if_deadlocked();
}

void Scheduler::await_end_of_pause(Lock& guard) {
  const Process& me = current();
  current().woken.wait(guard, [&] { return !held(me); });
}

void Scheduler::come_back(Lock& guard, bool idles) {
  if (idles) --idle_;
  await_end_of_pause(guard);
  ++at_large_;
}

void Scheduler::block_for_others(Lock& guard, const Wait& wait) {
  struct Counted {  // the mutex is held at both ends
    int& count;
    explicit Counted(int& waits) : count(waits) { ++count; }
    ~Counted() { --count; }
  } counted(waits_for_others_);
  block(guard, wait);
}

std::optional<Seconds> Scheduler::blocked_since(std::vector<BlockedProcess>& waiting) {
  const Lock guard = lock();
  if (!clock_.begun() || aborting_ || losing_ || pause_.is_on()) return std::nullopt;
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

void Scheduler::while_paused(FunctionRef fn) {
  Lock guard = enter();  // returns when no other pause is on
  stop_for(current());
  run_stopped(guard, fn);
}

void Scheduler::stop_for(Process& owner) {
  pause_.begin(owner);
  attention_ = true;
}

void Scheduler::pause_if_stopped() {
  if (at_large_ > 0) return;
  if (Process* const holder = pause_.all_stopped()) wake(*holder);
}

void Scheduler::end_pause(std::int64_t at) {
  pause_.end(at);
  attention_ = aborting_ || losing_;
  wake_all();
}

void Scheduler::run_stopped(Lock& guard, FunctionRef fn) {
  const Until stopped([&] { return pause_.stands(); },
                      [] { return "waits for the others to stop"; });
  block(guard, stopped);
  run_alone(guard, fn, [this] { end_pause(); });
}

// Runs fn while nobody else runs. after() is called with the mutex held when fn has returned or
// thrown.
template <class After>
void Scheduler::run_alone(Lock& guard, FunctionRef fn, After after) {
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

void Scheduler::stop_from_outside() {
  Lock guard = lock();
  stop_from_outside(guard);
}

void Scheduler::stop_from_outside(Lock&) {
  if (aborting_ || pause_.is_on()) return;  // stopped from outside already
  pause_.begin_outside();
  attention_ = true;
  pause_if_stopped();
}

std::int64_t Scheduler::stopped_at() {
  const Lock guard = lock();
  return pause_.stopped_at();
}

void Scheduler::freeze_from_outside(std::int64_t at) {
  const Lock guard = lock();
  if (!aborting_) pause_.freeze(at);
}

// In a pause of all ranks this process alone runs, until run_granted() ends.
void Scheduler::grant(Process& process) {
  if (aborting_) return;  // it is unwound, and nobody would release the others
  pause_.grant(process);
  wake(process);
  process.woken.notify_one();  // it may have been signalled before, and held back since
}

void Scheduler::run_granted(Lock& guard, FunctionRef fn) {
  run_alone(guard, fn, [this] {
    pause_.give_back();
    if (aborting_) end_pause();
  });
}

void Scheduler::resume_from_outside(Lock&, std::int64_t at) {
  if (pause_.is_outside()) end_pause(at);
}

}  // namespace hetsgd::realtime
