// ClockPause: the training clocks of all ranks stop at one instant and go on at another, with one
// thread of one rank running in between. Both instants are rank 0's, and every rank knows the
// offset of its monotonic clock. So each takes the same time off its training clock, and the
// training clocks of the ranks do not drift apart.
//
// A rank, driven by tick() between the looks of the channel:
//
//              kStop            nobody runs any more; kStopped(when)
//    running --------> stopping ------------------------------------> stopped
//       ^                 ^                                              |
//       |                 |  it was told to stop                         | kGo(since, owner): the
//       |                 |  again meanwhile                             | clock stands since then;
//       |  the instant    |                                              | the owner is granted the
//       |  has come       |                                              | right to run
//       +------------- resuming <----------------------------------- paused
//                                 kResume(at): at `at` the clock goes on
//
// Rank 0 grants one pause after the other, in the order of the requests:
//
//           ask                    all ranks have stopped; kGo(the latest)
//    idle ------> stopping all ------------------------------------------> granted
//      ^  kStop                                                               |
//      +----------------------------------------------------------------------+
//                  kDone of the owner; kResume(now and a notice) to all
//
// `since` is when the last rank stopped. The clock of a rank that stopped earlier runs on until
// then, as if the rank had waited, so that all clocks lose the same interval.
//
// The notice is there so that the message has arrived everywhere by then. A run that fails resumes
// nobody: the world of each rank releases its threads, and reset() makes everything as at first. No
// message of a failed run's pauses can come after reset(). Rank 0 sends all such messages before it
// tells that all ranks have come to the start of the next run.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>

#include "cluster/mpi/protocol/messages.hpp"
#include "cluster/process_group.hpp"

namespace hetsgd::mpi {

// The threads of a rank, as its clock's pause sees them (cluster/realtime/pause.hpp has their
// states). Instants are of this rank's monotonic clock, in ns. All are called by the thread of the
// Control.
class PausableWorld {
 public:
  // From now on nobody may go on. Calling it again does nothing.
  virtual void stop() = 0;
  // Since when nobody goes on; 0: somebody still runs.
  virtual std::int64_t stopped_at() = 0;
  // The training clock stands since `at`, which is not before stopped_at().
  virtual void freeze(std::int64_t at) = 0;
  // The thread of this rank that has asked first may run.
  virtual void grant() = 0;
  // The training clock goes on since `at`, and so do the threads. together: the pause was one of
  // all workers.
  virtual void resume(std::int64_t at, bool together) = 0;

 protected:
  ~PausableWorld() = default;
};

class ClockPause {
 public:
  explicit ClockPause(Control& control);

  // The world of the current run; null: there is none any more, and nobody acts on the last one.
  void attach(PausableWorld* world) { world_.attach(world); }
  // This rank's monotonic clock minus rank 0's, in ns. Before the run begins.
  void set_offset(std::int64_t offset_ns) { offset_ns_ = offset_ns; }

  // Any thread, also with the world's mutex held. Asks rank 0 for a pause that this rank owns; when
  // it is granted, the world's grant() is called. together: all workers come to this pause, and
  // rank 0 asks for all of them.
  void ask(bool together);
  // Any thread of the owner: it has run, and all may go on.
  void done();

  // The rest is called on the thread of `control`. reset(): before a run.
  void reset();
  // Rank 0: nobody has asked for a pause that is not over yet.
  bool is_idle() const { return asked_.empty(); }
  // Rank 0, while idle: nobody is granted a pause any more, because the segment ends.
  void close() { closed_ = true; }
  // The transitions that time or the world brings about; the others are made by messages.
  void tick();
  // The clock does not run, or is about to stop; what comes next is a message away.
  bool is_on() const { return state_ != State::running; }
  // All are about to go on, so the channel must look often. The rest of a pause is off the clock
  // and has time.
  bool resumes() const { return state_ == State::resuming; }

 private:
  enum class State { running, stopping, stopped, paused, resuming };
  // A pause that somebody has asked for.
  struct Asked {
    // The rank whose thread runs in it.
    int owner = 0;
    bool together = false;
  };
  // On rank 0:
  void start_next();
  void on_stopped(std::int64_t at);

  Control& control_;
  Attached<PausableWorld> world_;
  // Written by the run's owner, read by the thread of `control`.
  std::atomic<std::int64_t> offset_ns_ = 0;

  // State of this rank. This and all below: the thread of `control` only.
  State state_ = State::running;
  // kStop came while resuming: rank 0 grants the next pause before this rank has left the last one.
  bool stop_again_ = false;
  // When this rank goes on, in ns of its own monotonic clock; while resuming.
  std::int64_t resume_at_ = 0;
  bool resume_together_ = false;

  // On rank 0. asked_: the first is on. stopped_: how many ranks have stopped for it. stopped_at_:
  // the latest instant of those, in ns of rank 0's clock.
  std::deque<Asked> asked_;
  bool closed_ = false;
  int stopped_ = 0;
  std::int64_t stopped_at_ = 0;
};

}  // namespace hetsgd::mpi
