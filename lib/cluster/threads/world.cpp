#include "cluster/threads/world.hpp"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <system_error>

#include "cluster/blocking.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

namespace {

thread_local Process* current_process = nullptr;

// A blocked process looks for its signal this long before it sleeps in the kernel: about what a
// wake-up costs, so that waiting is never more than twice as long as the better of the two choices
// (competitive spinning).
constexpr std::int64_t kSpinNs = 30'000;
// The end of a timed sleep is spun: wake-ups of the kernel are late by 50 us and more.
constexpr Seconds kFineSleep{100e-6};
// A timed sleep looks for fences and aborts this often.
constexpr Seconds kSleepSlice{2e-3};
// One that may be cut short looks for that so often.
constexpr Seconds kCutSlice{0.2e-3};

Seconds seconds_of(std::int64_t ns) { return Seconds(static_cast<double>(ns) * 1e-9); }

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

World::World(int cores) : cores_(cores) {}

std::int64_t World::monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

Process& World::current() {
  if (!current_process) {
    throw CheckFailure(
        "a Node, Comm, Monitor or service is used by a thread that is no process of the run");
  }
  return *current_process;
}

// --- life of processes

Process& World::start(std::unique_ptr<Process> process, std::function<void(Process&)> body) {
  Lock guard = lock();
  Process& me = *process;
  const auto count = [&](int n) {
    if (me.kind != ProcessKind::service) live_ += n;
    if (me.parent) me.parent->live_companions += n;
    running_ += n;
    at_large_ += n;
  };
  count(1);
  try {
    processes_.push_back(std::move(process));
    me.thread = std::thread([this, &me, body = std::move(body)] {
      current_process = &me;
      prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0,
            0);  // nanoseconds; the default lets sleeps end 50 us late
      try {
        body(me);
      } catch (const Unwind&) {
      } catch (...) {
        abort(std::current_exception());
      }
      finish(me);
    });
  } catch (const std::system_error& error) {
    const std::string name = me.name;
    count(-1);
    processes_.pop_back();
    throw with_hint(
        runtime_failure("cannot start a thread for {}: {}", name, error.what()),
        "use fewer workers, raise the limit of processes (ulimit -u), or use --cluster sim");
  }
  return me;
}

void World::await_start() {
  Process& me = current();
  Lock guard = lock();
  ++set_up_;
  owner_woken_.notify_one();
  me.woken.wait(guard, [&] { return started_ || aborting_; });
  if (aborting_) unwind(guard, me);
}

void World::run(int workers, Hooks hooks) {
  Lock guard = lock();
  aborted_ = std::move(hooks.aborted);
  if (aborting_ && aborted_) aborted_(error_);
  owner_woken_.wait(guard, [&] { return set_up_ == workers || aborting_; });
  std::int64_t origin = monotonic_ns();
  if (hooks.start) {
    guard.unlock();
    origin = hooks.start();
    guard = lock();
  }
  origin_ns_ = origin;
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
  me.since = now();
  me.ended = true;
  --running_;
  --at_large_;
  if (me.parent) {
    --me.parent->live_companions;
    me.parent->woken.notify_one();
  }
  if (me.kind != ProcessKind::service && --live_ == 0) {
    finishing_ = true;
    wake_all();
    owner_woken_.notify_one();
  }
  freeze_if_stopped();
  fail_if_deadlocked();
}

void World::abort(std::exception_ptr error) {
  Lock guard = lock();
  abort_locked(std::move(error));
}

void World::abort_locked(std::exception_ptr error) {
  if (aborting_) return;
  error_ = std::move(error);
  aborting_ = true;
  attention_ = true;
  if (fence_owner_ == &outside_) release_world();  // nobody can be relied on to end it
  if (aborted_) aborted_(error_);
  wake_all();
  owner_woken_.notify_one();
}

// --- blocking

World::Lock World::lock() {
  // The mutex is held for well under a microsecond: trying again is cheaper than a sleep in the
  // kernel.
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
  Lock guard = lock();
  if (attention_.load(std::memory_order_relaxed)) {
    if (me.in_fence) {
      throw CheckFailure(me.name +
                         " uses the cluster inside of a fence, in which the world is stopped");
    }
    park(guard);
  }
  return guard;
}

void World::safepoint() {
  if (attention_.load(std::memory_order_relaxed)) [[unlikely]]
    static_cast<void>(enter());
}

void World::park(Lock& guard) {
  const Until wait([&] { return fence_owner_ == nullptr; }, [] { return "stopped by a fence"; });
  block(guard, wait);
}

void World::block(Lock& guard, const Wait& wait, Seconds Ledger::*account) {
  Process& me = current();
  const auto unwinds = [&] { return aborting_ && wait.interruptible(); };
  if (!held(me)) {
    if (unwinds()) unwind(guard, me);
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
  if (account) me.ledger.*account += now() - since;
  if (unwinds()) unwind(guard, me);
}

// A companion may use what stands on its worker's stack, so the companions end first.
void World::unwind(Lock& guard, Process& me) {
  // It was granted a fence that it will not run: the others, services too, must not wait for it.
  if (fence_owner_ == &me) release_world();
  me.woken.wait(guard, [&] { return me.live_companions == 0; });
  throw Unwind{};
}

// From here on `me` does not run until it is signalled.
void World::go_to_sleep(Process& me) {
  me.signalled.store(false, std::memory_order_relaxed);
  --running_;
  freeze_if_stopped();
  fail_if_deadlocked();
}

void World::await_signal(Lock& guard, Process& me) {
  const auto go = [&] { return me.signalled.load(std::memory_order_relaxed) && !held(me); };
  if (go()) return;
  if (running_ + spinning_ < cores_ && !fence_owner_) {
    ++spinning_;
    guard.unlock();
    const std::int64_t end = monotonic_ns() + kSpinNs;
    do {
      for (int i = 0; i < 16 && !me.signalled.load(std::memory_order_relaxed); ++i) relax();
    } while (!me.signalled.load(std::memory_order_relaxed) && monotonic_ns() < end);
    guard = lock();
    --spinning_;
    if (go()) return;
  }
  me.in_condition_wait = true;
  me.woken.wait(guard, go);
  me.in_condition_wait = false;
}

void World::wake(Process& process) {
  if (!process.wait || process.signalled.load(std::memory_order_relaxed)) return;
  ++running_;
  process.signalled.store(true, std::memory_order_relaxed);
  if (process.in_condition_wait) process.woken.notify_one();
}

void World::wake_all() {
  for (auto& process : processes_) {
    wake(*process);
    process->woken.notify_one();  // held back by a fence, or before the start
  }
}

void World::fail_if_deadlocked() {
  if (running_ > 0 || live_ == 0 || aborting_) return;
  if (waits_for_others_ > 0 || fence_owner_ == &outside_) return;
  std::vector<BlockedProcess> report;
  for (const auto& process : processes_) {
    report.push_back({process->name,
                      process->wait ? process->wait->describe() : std::string(kEnded),
                      process->since});
  }
  abort_locked(std::make_exception_ptr(deadlock_error(report)));
}

// --- time

Seconds World::now() const {
  if (origin_ns_ == 0) return Seconds(0);
  const std::int64_t frozen = frozen_at_ns_;
  return seconds_of((frozen ? frozen : monotonic_ns()) - origin_ns_ - fenced_ns_);
}

Seconds World::fenced() const { return seconds_of(fenced_ns_); }

bool World::sleep_until(Seconds deadline, const std::atomic<bool>* unless) {
  Process& me = current();
  const auto cut = [&] { return unless && unless->load(std::memory_order_acquire); };
  const Seconds slice = unless ? kCutSlice : kSleepSlice;
  if (deadline - now() > kFineSleep) {
    Lock guard = enter();
    --at_large_;
    freeze_if_stopped();
    while (true) {
      me.woken.wait(guard, [&] { return !held(me); });
      const Seconds left = deadline - now() - kFineSleep;
      if (left <= Seconds(0) || aborting_ || cut()) break;
      guard.unlock();
      std::this_thread::sleep_for(std::min(left, slice));
      guard = lock();
    }
    ++at_large_;
    if (aborting_) unwind(guard, me);
  }
  while (now() < deadline) {
    if (cut()) return false;
    relax();
  }
  return true;
}

// --- fence

void World::fence(FunctionRef fn) {
  Lock guard = enter();  // returns when no other fence is on
  stop_for(current());
  run_fenced(guard, fn);
}

void World::stop_for(Process& owner) {
  HETSGD_CHECK(!fence_owner_);
  fence_owner_ = &owner;
  attention_ = true;
}

void World::freeze_if_stopped() {
  if (!fence_owner_ || at_large_ > 0 || frozen_at_ns_ != 0) return;
  if (fence_owner_ == &outside_) {
    if (stopped_at_ns_ == 0) stopped_at_ns_ = monotonic_ns();
    return;
  }
  frozen_at_ns_ = monotonic_ns();
  wake(*fence_owner_);
}

void World::run_fenced(Lock& guard, FunctionRef fn) {
  Process& me = current();
  const Until stopped([&] { return frozen_at_ns_ != 0; },
                      [] { return "waits for the others to stop"; });
  try {
    block(guard, stopped);
    me.in_fence = true;
    guard.unlock();
    fn();
  } catch (...) {
    if (!guard.owns_lock()) guard.lock();
    me.in_fence = false;
    release_world();
    throw;
  }
  guard.lock();
  me.in_fence = false;
  release_world();
  if (aborting_) unwind(guard, me);
}

void World::release_world(std::int64_t at) {
  if (frozen_at_ns_ != 0) {
    fenced_ns_ += at - frozen_at_ns_;
    frozen_at_ns_ = 0;
  }
  stopped_at_ns_ = 0;
  fence_owner_ = nullptr;
  attention_ = aborting_.load();
  wake_all();
}

}  // namespace hetsgd::threads
