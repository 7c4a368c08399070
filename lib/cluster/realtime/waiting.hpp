// Waits of a thread that nobody in this process ends: a sleep, and a look at what happens in other
// processes. For a pause the thread counts as stopped meanwhile, and goes on waiting; it returns
// after the pause. For the detection of deadlocks it runs.
//
// Unless the wait is over in a moment, both stop for a pause, and throw Unwind when the run is
// aborted. The caller does not hold the mutex. Nobody wakes them: they look for aborts and pauses
// between slices of sleep, which bounds how long an abort takes.
#pragma once

#include <atomic>
#include <string>
#include <type_traits>
#include <utility>

#include "cluster/realtime/world.hpp"

namespace hetsgd::realtime {

// Returns at `deadline` of the training clock, with true; a pause moves it by its own length. With
// `unless` it ends early, with false, soon after that has become true.
bool sleep_until(World& world, Seconds deadline, const std::atomic<bool>* unless = nullptr);

// The safepoint of a call of a service. A worker that is out of reach without the others knowing
// waits until it is back.
void reach(World& world);
World::Lock enter_in_reach(World& world);  // the same, and World::enter()
// The same for a call that other workers take part in. If the world loses workers, the process
// halts (Scheduler::halt_for_loss).
World::Lock begin_communication(World& world);
void begin_message(World& world);  // the same without the mutex

// Returns when poll.done(). The time is added to breakdown.*account unless that is null. When the
// run is aborted poll.cancel() has returned before Unwind is thrown. If workers are lost, a wait
// that outlasts this (Poll, AgreedCall) and one whose message had come return as usual. In any
// other wait the process halts after poll.cancel(). Throws what `poll` throws.
void poll_until(World& world, Poll& poll, Seconds TimeBreakdown::*account = &TimeBreakdown::wait);

// Calls take() until the optional that it returns has a value, and returns that value.
template <class Take, class Describe>
auto poll_for(World& world, Take take, Describe describe) {
  class ForValue final : public Poll {
   public:
    ForValue(Take& take, Describe& text) : take_(take), describe_(text) {}
    bool done() override { return (found = take_()).has_value(); }
    bool cancel() override { return false; }
    std::string describe() const override { return std::string(describe_()); }
    std::invoke_result_t<Take&> found;

   private:
    Take& take_;
    Describe& describe_;
  } poll(take, describe);
  poll_until(world, poll);
  return *std::move(poll.found);
}

}  // namespace hetsgd::realtime
