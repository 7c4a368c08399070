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

// The contents of kGo and kResume; instants are rank 0's. since: when the last rank stopped.
struct Go {
  std::int64_t since;
  int owner;
};
struct Resume {
  std::int64_t at;
  bool together;
};

}  // namespace

ClockPause::ClockPause(Control& control) : control_(control) {
  // On rank 0. A pause that finds others in the queue begins when they are done.
  on_value<bool>(control_, kAskPause, [this](int from, bool together) {
    asked_.push_back({from, together});
    if (asked_.size() == 1) start_next();
  });
  on_value<int>(control_, kStop, [this](int, int) {
    // Rank 0 may grant the next pause before this rank has left the last one.
    if (state_ == State::resuming) {
      stop_again_ = true;
    } else {
      state_ = State::stopping;
    }
  });
  // On rank 0:
  on_value<std::int64_t>(control_, kStopped, [this](int, std::int64_t at) { on_stopped(at); });
  // All ranks have stopped. The clock is frozen before the owner is granted the right to run, so
  // nothing that it does is on the clock.
  on_value<Go>(control_, kGo, [this](int, const Go& go) {
    state_ = State::paused;
    world_.call([&](PausableWorld& world) {
      world.freeze(go.since + offset_ns_);
      if (go.owner == control_.rank()) world.grant();
    });
  });
  // On rank 0. The next pause of the queue starts at once: its kStop follows the kResume, and a
  // rank that is still waiting for the instant remembers it (stop_again_).
  on_value<int>(control_, kDone, [this](int, int) {
    if (asked_.empty()) return;  // the run has failed meanwhile
    send_value_to_all(
        control_, kResume,
        Resume{TrainingClock::monotonic_ns() + kResumeNoticeNs, asked_.front().together});
    asked_.pop_front();
    start_next();
  });
  // The rank goes on in tick(), when the instant has come.
  on_value<Resume>(control_, kResume, [this](int, const Resume& resume) {
    state_ = State::resuming;
    resume_at_ = resume.at + offset_ns_;
    resume_together_ = resume.together;
  });
}

// The asking rank is no exception: its owner blocks, and counts as stopped until it is granted.
void ClockPause::ask(bool together) { send_value(control_, 0, kAskPause, together); }
void ClockPause::done() { send_value(control_, 0, kDone, 0); }

void ClockPause::reset() {
  state_ = State::running;
  stop_again_ = false;
  asked_.clear();
}

// On rank 0, when no pause is on. kStop has no content: a value of 0 stands for none.
void ClockPause::start_next() {
  stopped_ = 0;
  stopped_at_ = 0;
  if (!asked_.empty()) send_value_to_all(control_, kStop, 0);
}

// On rank 0. Every rank answers a kStop once, so a count is enough. The queue is empty where
// reset() came in between.
void ClockPause::on_stopped(std::int64_t at) {
  stopped_at_ = std::max(stopped_at_, at);
  if (++stopped_ == control_.size() && !asked_.empty()) {
    send_value_to_all(control_, kGo, Go{stopped_at_, asked_.front().owner});
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
    send_value(control_, 0, kStopped, at - offset_ns_);
  });
}

}  // namespace hetsgd::mpi
