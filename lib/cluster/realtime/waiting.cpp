#include "cluster/realtime/waiting.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <thread>

namespace hetsgd::realtime {

namespace {

// The end of a timed sleep is spun. The kernel's wake-ups are late by less than this, but by more
// than a delay may be wrong.
constexpr Seconds kFineSleep{100e-6};
// A timed sleep looks for pauses and aborts this often.
constexpr Seconds kSleepSlice{2e-3};
// The same for a sleep that may be cut short: it looks for that, too.
constexpr Seconds kCutSlice{0.2e-3};

// A poll goes through three stages, from the quickest to the cheapest:
//
//   spin, at large --(kPollSpinNs)--> yield, aside --(kYieldNs)--> sleep, aside: longer and longer
//
// A message inside of one host comes within the first stage. In the other two the process counts as
// stopped, so that a pause can begin. It also counts as blocked for the vote of the ranks about a
// deadlock.
constexpr std::int64_t kPollSpinNs = 10'000;
constexpr std::int64_t kYieldNs = 200'000;
// Then the poll sleeps for an eighth of the time that it has waited, so that no wait is more than
// an eighth too long. The longest sleep is short, and yet a look after each costs only about a
// percent of a core.
constexpr std::int64_t kMaxSleepNs = 200'000;
// Bytes in flight come at their pace: a sleep would only add to it.
constexpr std::int64_t kTransferYieldNs = 5'000'000;

void back_off(std::int64_t waited_ns, bool transfers) {
  if (waited_ns < (transfers ? kTransferYieldNs : kYieldNs)) {
    sched_yield();
    return;
  }
  const timespec nap{0, std::min(waited_ns / (transfers ? 64 : 8), kMaxSleepNs)};
  nanosleep(&nap, nullptr);
}

// Services go on after a loss until all ranks have ended, which they find out themselves.
bool ends(const World& world, const Poll& poll) {
  if (!world.ends()) return false;
  if (!world.losing()) return true;
  const AgreedCall* const call = World::current().agreed;
  return !(poll.outlasts_loss() || poll.idles() || (call && call->goes_on()));
}

// False: the run is aborted, or workers are lost. The process is aside from the first critical
// section to come_back(), which is called on every path: an exception, too, must leave the counters
// as they were. The deadlock report must not see a poll on a stack that is gone.
bool polled_to_the_end(World& world, Poll& poll, std::int64_t begin) {
  World::Lock guard = world.lock();
  World::current().poll = &poll;
  world.step_aside(guard, poll.idles());
  guard.unlock();
  const auto come_back = [&] {
    if (!guard.owns_lock()) guard = world.lock();
    world.come_back(guard, poll.idles());
    World::current().poll = nullptr;
  };
  bool done = false;
  try {  // cancel() waits for outside users of this process's memory
    while (!ends(world, poll) && !(done = poll.done())) {
      back_off(TrainingClock::monotonic_ns() - begin, poll.transfers());
    }
    if (!done) done = poll.cancel();
  } catch (...) {
    come_back();
    throw;
  }
  come_back();
  return done && (!world.aborting() || world.losing());
}

}  // namespace

// aside --> [ no pause? time left? --> the mutex is given up, one slice of sleep ]... --> at large
//
// The time left is computed anew after each slice, since a pause, during which the clock stands,
// may have begun and ended within it.
bool sleep_until(World& world, Seconds deadline, const std::atomic<bool>* unless) {
  const auto cut = [&] { return unless && unless->load(std::memory_order_acquire); };
  const Seconds slice = unless ? kCutSlice : kSleepSlice;
  if (deadline - world.now() > kFineSleep) {
    World::Lock guard = world.enter();
    world.step_aside(guard);
    while (true) {
      // A pause moves the deadline, which is one of the training clock, by its own length.
      world.await_end_of_pause(guard);
      const Seconds left = deadline - world.now() - kFineSleep;
      if (left <= Seconds(0) || world.aborting() || cut()) break;
      guard.unlock();
      std::this_thread::sleep_for(std::min(left, slice));
      guard = world.lock();
    }
    world.come_back(guard);
    if (world.aborting()) world.unwind(guard);
  }
  // The rest is so short that a pause or an abort can wait for it.
  while (world.now() < deadline) {
    if (cut()) return false;
    relax();
  }
  return true;
}

namespace {

void await_reach(World& world) {
  Process& me = World::current();
  if (!me.reachable) return;
  const Seconds since = world.now(), until = me.reachable(since);
  if (until <= since) return;
  sleep_until(world, until);
  me.spend(&TimeBreakdown::wait, world.now() - since);
}

}  // namespace

void reach(World& world) {
  await_reach(world);
  world.safepoint();
}

World::Lock enter_in_reach(World& world) {
  await_reach(world);
  return world.enter();
}

World::Lock begin_communication(World& world) {
  World::Lock guard = enter_in_reach(world);
  if (world.losing()) world.halt_for_loss(guard);
  return guard;
}

void begin_message(World& world) {
  await_reach(world);
  if (world.wants_attention()) begin_communication(world);
}

void poll_until(World& world, Poll& poll, Seconds TimeBreakdown::*account) {
  // Most messages are there already: no clock is read for them. During a pause or an abort the
  // process steps aside first, as the others wait for it to stop.
  if (!world.wants_attention() && poll.done()) return;
  const Seconds since = world.now();
  const std::int64_t begin = TrainingClock::monotonic_ns();
  bool done = false;
  while (!done && !world.wants_attention()) {
    if (world.oversubscribed() || TrainingClock::monotonic_ns() - begin > kPollSpinNs) break;
    done = poll.done();
  }
  if (!done) done = polled_to_the_end(world, poll, begin);
  if (account) World::current().spend(account, world.now() - since);
  if (done) return;
  World::Lock guard = world.lock();
  if (world.aborting()) world.unwind(guard);
  world.halt_for_loss(guard);
}

}  // namespace hetsgd::realtime
