#include "cluster/mpi/protocol/clock_pause.hpp"

#include <algorithm>
#include <utility>

#include "cluster/mpi/protocol/messages.hpp"
#include "cluster/realtime/training_clock.hpp"

namespace hetsgd::mpi {

namespace {

using realtime::TrainingClock;

// A message to all may take so long; a rank that gets it later goes on a little later than the
// others, but its clock goes on since the same instant.
constexpr std::int64_t kResumeNoticeNs = 500'000;

}  // namespace

ClockPause::ClockPause(Control& control) : control_(control) {
  // On rank 0. A pause that finds others in the queue begins when they are done.
  on_values<bool>(control_, kAskPause, [this](int from, bool together) {
    if (closed_) return;
    asked_.push_back({from, together});
    if (asked_.size() == 1) start_next();
  });
  on_values(control_, kStop, [this](int) {
    // Rank 0 may grant the next pause before this rank has left the last one.
    if (state_ == State::resuming) {
      stop_again_ = true;
    } else {
      state_ = State::stopping;
    }
  });
  // On rank 0:
  on_values<std::int64_t>(control_, kStopped, [this](int, std::int64_t at) { on_stopped(at); });
  // All ranks have stopped. The clock is frozen before the owner is granted the right to run, so
  // nothing that it does is on the clock.
  on_values<std::int64_t, int>(control_, kGo, [this](int, std::int64_t since, int owner) {
    state_ = State::paused;
    world_.call([&](PausableWorld& world) {
      world.freeze(since + offset_ns_);
      if (owner == control_.rank()) world.grant();
    });
  });
  // On rank 0. The next pause of the queue starts at once: its kStop follows the kResume, and a
  // rank that is still waiting for the instant remembers it (stop_again_).
  on_values(control_, kDone, [this](int) {
    if (asked_.empty()) return;  // the run has failed meanwhile
    send_values_to_all(control_, kResume, TrainingClock::monotonic_ns() + kResumeNoticeNs,
                       asked_.front().together);
    asked_.pop_front();
    start_next();
  });
  // The rank goes on in tick(), when the instant has come.
  on_values<std::int64_t, bool>(control_, kResume, [this](int, std::int64_t at, bool together) {
    state_ = State::resuming;
    resume_at_ = at + offset_ns_;
    resume_together_ = together;
  });
}

// The asking rank is no exception: its owner blocks, and counts as stopped until it is granted.
void ClockPause::ask(bool together) { send_values(control_, 0, kAskPause, together); }
void ClockPause::done() { send_values(control_, 0, kDone); }

void ClockPause::reset() {
  state_ = State::running;
  stop_again_ = false;
  asked_.clear();
  closed_ = false;
}

// On rank 0, when no pause is on.
void ClockPause::start_next() {
  stopped_ = 0;
  stopped_at_ = 0;
  if (!asked_.empty()) send_values_to_all(control_, kStop);
}

// On rank 0. Every rank answers a kStop once, so a count is enough. The queue is empty where
// reset() came in between.
void ClockPause::on_stopped(std::int64_t at) {
  stopped_at_ = std::max(stopped_at_, at);
  if (++stopped_ == control_.size() && !asked_.empty()) {
    send_values_to_all(control_, kGo, stopped_at_, asked_.front().owner);
  }
}

void ClockPause::tick() {
  // All ranks go on at one instant of rank 0's clock, whenever they look.
  if (state_ == State::resuming && TrainingClock::monotonic_ns() >= resume_at_) {
    // Instants travel as rank 0's: the offset is taken off here and added where kGo arrives.
    world_.call([&](PausableWorld& world) { world.resume(resume_at_, resume_together_); });
    state_ = std::exchange(stop_again_, false) ? State::stopping : State::running;
  }
  if (state_ != State::stopping) return;
  world_.call([&](PausableWorld& world) {
    world.stop();  // again and again: it does nothing once nobody may run
    const std::int64_t at = world.stopped_at();
    if (at == 0) return;
    state_ = State::stopped;
    send_values(control_, 0, kStopped, at - offset_ns_);
  });
}

}  // namespace hetsgd::mpi
