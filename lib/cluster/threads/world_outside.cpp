// What a World needs beside other operating-system processes: waits that poll, and fences that come
// from outside.
#include <sched.h>

#include <algorithm>

#include "cluster/threads/world.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

namespace {

// A message in the same host takes about a microsecond: who waits spins so long before it gives its
// core away, and gives it away again and again before it sleeps.
constexpr std::int64_t kPollSpinNs = 10'000;
constexpr std::int64_t kYieldNs = 200'000;
// Then it sleeps for an eighth of the time that it has waited, so that no wait is more than an
// eighth too long, but never so long that it costs more than a percent or so of a core to keep on.
constexpr std::int64_t kMaxSleepNs = 200'000;

// Bytes that are on their way already come at their pace: a sleep would only add to it.
constexpr std::int64_t kTransferYieldNs = 5'000'000;

void back_off(std::int64_t waited_ns, bool transfers) {
  if (waited_ns < (transfers ? kTransferYieldNs : kYieldNs)) {
    sched_yield();
    return;
  }
  const timespec nap{0, std::min(waited_ns / (transfers ? 64 : 8), kMaxSleepNs)};
  nanosleep(&nap, nullptr);
}

}  // namespace

void World::poll_until(Poll& poll, Seconds Ledger::*account) {
  const bool calm = !attention_.load(std::memory_order_relaxed);
  if (calm && poll.done()) return;
  Process& me = current();
  const Seconds since = now();
  const std::int64_t begin = monotonic_ns();
  bool done = false;
  while (!done && !attention_.load(std::memory_order_relaxed)) {
    if (crowded_ || monotonic_ns() - begin > kPollSpinNs) break;
    done = poll.done();
  }
  if (!done) done = polled_to_the_end(poll, me, begin);
  if (account) me.ledger.*account += now() - since;
  if (done) return;
  Lock guard = lock();
  unwind(guard, me);
}

// False: the run is aborted.
bool World::polled_to_the_end(Poll& poll, Process& me, std::int64_t begin) {
  Lock guard = lock();
  --at_large_;
  me.poll = &poll;
  me.since = now();
  freeze_if_stopped();
  guard.unlock();
  const auto come_back = [&] {
    if (!guard.owns_lock()) guard = lock();
    me.woken.wait(guard, [&] { return !held(me); });
    ++at_large_;
    me.poll = nullptr;
  };
  bool done = false;
  try {
    while (!aborting_.load(std::memory_order_relaxed) && !(done = poll.done())) {
      back_off(monotonic_ns() - begin, poll.transfers());
    }
    if (!done) poll.cancel();
  } catch (...) {
    come_back();
    throw;
  }
  come_back();
  return done && !aborting_;
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
  if (!started_ || aborting_ || fence_owner_) return std::nullopt;
  Seconds since{0};
  for (const auto& process : processes_) {
    const Process& p = *process;
    const bool signalled = p.signalled.load(std::memory_order_relaxed);
    std::string at(kEnded);
    if (p.poll) {
      at = p.poll->describe();
    } else if (p.wait && !signalled) {
      at = p.wait->describe();
    } else if (p.wait || !p.ended) {
      return std::nullopt;
    }
    if (p.kind != ProcessKind::service) since = std::max(since, p.since);
    waiting.push_back({p.name, std::move(at), p.since});
  }
  return since;
}

void World::stop_from_outside() {
  Lock guard = lock();
  stop_from_outside(guard);
}

void World::stop_from_outside(Lock&) {
  if (aborting_ || fence_owner_) return;  // stopped from outside already
  fence_owner_ = &outside_;
  attention_ = true;
  freeze_if_stopped();
}

std::int64_t World::stopped_at() {
  const Lock guard = lock();
  return stopped_at_ns_;
}

void World::freeze_from_outside(std::int64_t at) {
  const Lock guard = lock();
  if (!aborting_) frozen_at_ns_ = at;
}

void World::grant(Process& process) {
  if (aborting_) return;  // it is unwound, and nobody would release the others
  fence_owner_ = &process;
  wake(process);
  process.woken.notify_one();  // it may have been signalled before, and held back since
}

void World::run_granted(Lock& guard, FunctionRef fn) {
  Process& me = current();
  const auto give_back = [&] {
    if (!guard.owns_lock()) guard.lock();
    me.in_fence = false;
    fence_owner_ = &outside_;
    if (aborting_) release_world();
  };
  me.in_fence = true;
  guard.unlock();
  try {
    fn();
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
  if (aborting_) unwind(guard, me);
}

void World::resume_from_outside(Lock&, std::int64_t at) {
  if (fence_owner_ == &outside_) release_world(at);
}

}  // namespace hetsgd::threads
