#include "cluster/realtime/pause.hpp"

#include "core/error.hpp"

namespace hetsgd::realtime {

void Pause::begin(Process& holder) {
  HETSGD_CHECK(!is_on());
  state_ = State::stopping;
  holder_ = &holder;
}

// Called whenever the last process at large stops, in a pause or not. The holder, too, is blocked
// by then (World::run_stopped), and is woken by the caller; a pause from outside has no holder yet,
// and waits for freeze().
Process* Pause::all_stopped() {
  if (state_ != State::stopping) return nullptr;
  const std::int64_t now = TrainingClock::monotonic_ns();
  if (!holder_) {  // rank 0 decides about the instant, which lies later if another rank stops later
    state_ = State::stopped;
    stopped_at_ns_ = now;
    return nullptr;
  }
  state_ = State::standing;
  clock_.stop(now);
  return holder_;
}

// The clock has run on from `at` to now, but nobody has read it: all were stopped at `at`, and
// still are.
void Pause::freeze(std::int64_t at) {
  state_ = State::standing;
  clock_.stop(at);
}

void Pause::grant(Process& to) {
  state_ = State::granted;
  holder_ = &to;
}

void Pause::give_back() {
  state_ = State::standing;
  holder_ = nullptr;
}

// From every state: an abort ends a pause that has only begun, too. Then the clock has not stood,
// and go_on() does nothing.
void Pause::end(std::int64_t at) {
  clock_.go_on(at);
  state_ = State::off;
  holder_ = nullptr;
  stopped_at_ns_ = 0;
}

}  // namespace hetsgd::realtime
