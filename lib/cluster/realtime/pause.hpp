// Pause: the state of a world whose clock is to stand while one thread runs, or none. It decides
// which threads may run; the world acts on it. All members are called under the world's mutex.
//
// A pause of this process's own:
//
//        begin(holder)             nobody else runs            end
//   off ---------------> stopping ------------------> standing ---> off
//                                                     the holder runs
//
// One of all ranks (mpi), which begins and ends from outside; here nobody holds it, but the owner's
// rank grants it to the owner for a time:
//
//        begin_outside             nobody runs           freeze                end
//   off ---------------> stopping -------------> stopped -------> standing ---------> off
//                                (since when is told             |      ^
//                                 to rank 0)                grant v      | give_back
//                                                              granted --+
//
// From `stopping` on nobody but the holder starts anything new, but the clock still runs. The
// others' work until their next blocking call is training and is paid for. The clock stops when the
// last of them stops; under mpi, when the last one of all ranks does.
//
// An abort ends a pause in any state, because nobody else can be relied on to do so. The world
// calls end() for a pause from outside, the unwound or returning holder for one of its own.
#pragma once

#include <cstdint>

#include "cluster/realtime/process.hpp"
#include "cluster/realtime/training_clock.hpp"
#include "core/error.hpp"

namespace hetsgd::realtime {

class Pause {
 public:
  explicit Pause(TrainingClock& clock) : clock_(clock) {}

  bool is_on() const { return state_ != State::off; }
  // `me` must not run.
  bool holds_back(const Process& me) const { return is_on() && holder_ != &me; }
  bool is_held_by(const Process& me) const { return is_on() && holder_ == &me; }
  // The pause came from outside, and no process here may run.
  bool is_outside() const { return is_on() && !holder_; }
  // Since when nobody here runs, as rank 0 is told; 0: somebody does.
  std::int64_t stopped_at() const { return stopped_at_ns_; }
  // The clock stands, and the holder may run.
  bool stands() const { return clock_.stands(); }

  // No pause may be on (checked): World::enter() has waited for the end of another one.
  void begin(Process& holder) {
    HETSGD_CHECK(!is_on());
    state_ = State::stopping;
    holder_ = &holder;
  }
  // No pause may be on, and the holder stays null.
  void begin_outside() { state_ = State::stopping; }
  // Nobody but the holder runs any more. Returns the holder that may go on now; null: none. It does
  // nothing where no pause is stopping, as the world calls it whenever its last process stops, in a
  // pause or not. The holder, too, is blocked by then (World::run_stopped), and is woken by the
  // caller; a pause from outside has no holder yet, and waits for freeze().
  Process* all_stopped() {
    if (state_ != State::stopping) return nullptr;
    const std::int64_t now = TrainingClock::monotonic_ns();
    if (!holder_) {  // rank 0 chooses the instant: later if another rank stops later
      state_ = State::stopped;
      stopped_at_ns_ = now;
      return nullptr;
    }
    state_ = State::standing;
    clock_.stop(now);
    return holder_;
  }
  // The clock has stood since the instant `at`, which rank 0 chose: not before stopped_at(). It has
  // run on from `at` to now, but nobody has read it: all were stopped at `at`, and still are.
  void freeze(std::int64_t at) {
    state_ = State::standing;
    clock_.stop(at);
  }
  // These two lead from `standing` of a pause from outside to `granted` and back. In between all
  // processes but `to` are held back.
  void grant(Process& to) {
    state_ = State::granted;
    holder_ = &to;
  }
  void give_back() {
    state_ = State::standing;
    holder_ = nullptr;
  }
  // The clock goes on at the instant `at`, if it stood. Allowed in every state: an abort also ends
  // a pause that has only begun; then go_on() does nothing.
  void end(std::int64_t at) {
    clock_.go_on(at);
    state_ = State::off;
    holder_ = nullptr;
    stopped_at_ns_ = 0;
  }

 private:
  enum class State { off, stopping, stopped, standing, granted };

  TrainingClock& clock_;
  State state_ = State::off;
  // The process that may run; null: none may. Only a pause from outside is on with a null holder.
  Process* holder_ = nullptr;
  std::int64_t stopped_at_ns_ = 0;  // monotonic; 0: none from outside has stopped everybody
};

}  // namespace hetsgd::realtime
