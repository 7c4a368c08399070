// Scheduler: which processes of a run may run and which are blocked, the clock and the pause. How
// processes begin and end, and the abort, are the world's (world.hpp), which derives from it.
//
// One mutex guards all coordination state of a run (mailboxes, rendezvous, service queues,
// monitors). A process that has nothing to do blocks on a condition variable of its own; large
// copies and reductions happen outside the mutex. So three things are exact:
//   - deadlock: the number of processes that run or have been signalled is a plain counter; at 0
//     nobody can ever signal again;
//   - the pause: the world is stopped when every process is inside a blocking call, which it does
//     not leave before the pause ends (states: pause.hpp);
//   - the abort: a process is unwound only at a point where nobody touches its memory.
//
// A process is in one of these states. The table says which counters count it. They change together
// with the state, under the mutex, so they are always exact.
//
//             block()              wake()                              running_  at_large_
//     runs -----------> blocked -----------> signalled       runs          1         1
//      ^ |                 ^  wait not ready |  |            aside         1         0
//      | |                 +-----------------+  |            blocked       0         0
//      | |                                      v            signalled     1         0
//      | |                      runs, when no pause holds it back
//      | |  step_aside()
//      | +--------------> aside: it sleeps, or looks for what other processes of the system do
//      +----------------- (waiting.hpp)
//           come_back()
//
// A wake-up moves the process to `signalled` at once, in the waker's own critical section. Else
// nobody might be counted as running although somebody is about to, and that would be taken for a
// deadlock.
//
// Every call of the vocabulary has this shape. It calls enter() (a safepoint, returns with the
// mutex held), looks at and changes the shared state, and calls block() if something is missing. It
// gives the mutex up for large copies, and ends with safepoint(). lock() in place of enter() is for
// a part that others depend on.
//
// The loss of workers ends a segment (cluster/segment.hpp) without tearing anything apart:
//
//             begin_losing()              nobody can go on                 all have unwound
//   trains ------------------> losing ----------------------> aborting -------------------> over
//
// While the world loses workers nobody begins to communicate: a process that is about to calls
// halt_for_loss() instead. All that has begun goes on: computations, and calls that all have
// reached. A call of a service goes on in threads; in mpi a caller whose answer has not come is
// unwound. So a process stops only where it begins a call or waits for what never comes. That is
// the same place on all ranks. When every process has halted or waits, the world is unwound, as by
// an abort.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cluster/blocking.hpp"
#include "cluster/realtime/pause.hpp"
#include "cluster/realtime/process.hpp"
#include "cluster/realtime/training_clock.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::realtime {

class Scheduler : NonCopyable {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // The process of the calling thread. Checked: the thread belongs to a run.
  static Process& current();

  // --- blocking ----------------------------------------------------------------------------------
  // The begin of every call of the vocabulary: takes the mutex, waits while the world is stopped.
  // Throws Unwind when the run is aborted, so a caller must not yet have lent its memory to others.
  // Throws CheckFailure in the function of a pause or of a computation, because nobody answers
  // there.
  Lock enter();
  // The end of such a call, and a safepoint where no mutex is needed. Without an abort or a pause
  // it is one load.
  void safepoint();
  // The mutex without a safepoint, for work that must be completed even when the run is aborted.
  Lock lock();
  // Returns when wait.ready() and no pause holds the caller back, with the mutex held; in between
  // the mutex is given up. The time is added to breakdown.*account unless that is null. Throws
  // Unwind, with the mutex held, when the run is aborted and the wait is interruptible; one that is
  // not ends by ready() alone, whatever has happened.
  void block(Lock& lock, const Wait& wait, Seconds TimeBreakdown::*account = &TimeBreakdown::wait);
  // Makes a blocked process look at its wait again; nothing for one that is not blocked. Every
  // change that can make a wait ready is followed by this: nobody looks of itself. Mutex held.
  void wake(Process& process);
  bool aborting() const { return aborting_; }

  // --- waits that nobody here ends (waiting.hpp)
  // From here on, until come_back(), the calling process counts as stopped for a pause, and as
  // running for the detection of deadlocks. It may touch nothing that the function of a pause
  // touches, and must call come_back() on every path, since the counters are changed by both. They
  // do not throw. Mutex held, in all three; the latter two give it up while they wait.
  // idles: a service that waits for requests (Poll::idles), the same value for come_back(). While
  // the world loses workers it does not count as running.
  void step_aside(Lock& lock, bool idles = false);
  // Returns when no pause holds the calling process back.
  void await_end_of_pause(Lock& lock);
  void come_back(Lock& lock, bool idles = false);
  // A pause or an abort is on: code that does not take the mutex must look.
  bool wants_attention() const { return attention_.load(std::memory_order_relaxed); }
  // A process that shares the cores with other ranks does not spin before it gives its core away.
  // Set before the first process starts.
  void set_oversubscribed(bool oversubscribed) { oversubscribed_ = oversubscribed; }
  bool oversubscribed() const { return oversubscribed_; }
  // Ends the calling process, when its background tasks have ended: throws Unwind. The run has been
  // aborted; the mutex is held, and is given up while it waits.
  [[noreturn]] void unwind(Lock& lock);

  // --- the loss of workers -----------------------------------------------------------------------
  // Workers are lost; stays true in the abort that follows. Any thread.
  bool losing() const { return losing_; }
  // The run is aborted, or its segment ends: a wait may end without what it waits for.
  bool ends() const { return aborting_ || losing_; }
  // Whether a worker that fails at this instant of the training clock is lost in this segment. It
  // is not if another loss was known before that instant: then it is lost in the next segment.
  bool is_loss_of_segment(Seconds at);
  // Workers are lost, and the calling process begins nothing any more: it blocks until the world is
  // unwound. Mutex held.
  [[noreturn]] void halt_for_loss(Lock& lock);

  // --- time --------------------------------------------------------------------------------------
  Seconds now() const { return clock_.now(); }
  Seconds paused() const { return clock_.paused(); }
  // The clock tells this time after the next pause.
  void set_time_after_pause(Seconds time) {
    const Lock guard = lock();
    clock_.set_next(time);
  }

  // --- the pause ---------------------------------------------------------------------------------
  // Endpoint::while_paused of the calling process. Waits for a pause that is on already, then for
  // the others to stop. Throws what fn throws, after the pause.
  void while_paused(FunctionRef fn);
  // For a collective pause. stop_for, mutex held: from now on only `owner` may run; the clock stops
  // as soon as everybody else has stopped. The owner then calls run_stopped; others call park.
  void stop_for(Process& owner);
  void run_stopped(Lock& lock, FunctionRef fn);
  void park(Lock& lock);

  // --- pauses of all ranks (mpi), driven by a thread that is no process of this run --------------
  // block() for what others decide. While anybody is in it no deadlock is reported here, because
  // another rank can end the wait. The vote of all ranks (blocked_since) finds those deadlocks.
  void block_for_others(Lock& lock, const Wait& wait);
  // From now on nobody may run. stopped_at() is the monotonic time in ns when the last one stopped,
  // or 0 before that.
  void stop_from_outside();
  void stop_from_outside(Lock& lock);
  std::int64_t stopped_at();
  // The clock stands, since `at`; then goes on, since `at`. In between one process may be granted
  // the right to run: it is blocked, and calls run_granted.
  void freeze_from_outside(std::int64_t at);
  void grant(Process& process);  // mutex held
  void run_granted(Lock& lock, FunctionRef fn);
  void resume_from_outside(Lock& lock, std::int64_t at);
  // Since when (training clock) nobody here can go on without others, and the waits of all
  // processes. Empty: somebody can, or the world is stopped, or the run is aborted.
  std::optional<Seconds> blocked_since(std::vector<BlockedProcess>& waiting);

 protected:
  // cores: how many threads can run at once; decides which processes may spin before it sleeps.
  explicit Scheduler(int cores) : cores_(cores) {}
  ~Scheduler() = default;

  // --- for the world, mutex held -----------------------------------------------------------------
  // Adds a process that is about to run. It counts as running from here on; else its starter, which
  // may block at once, would look deadlocked. take_back: its thread could not be started.
  Process& add(std::unique_ptr<Process> process);
  void take_back(Process& last);
  // On the thread of `me`, first and last. The world calls look() when it has ended.
  static void enter_process(Process& me);
  void leave(Process& me);
  static Process* current_or_null();
  // A pause may begin, or nobody can go on any more.
  void look() {
    pause_if_stopped();
    fail_if_deadlocked();
  }
  // Workers and background tasks that have not ended.
  int live() const { return live_; }
  // The clock runs since the instant `origin`, and everybody is woken.
  void start_clock(std::int64_t origin);
  bool clock_begun() const { return clock_.begun(); }
  // Wakes everybody: each process finds aborting() in its block() and is unwound from there, or
  // goes on to its next safepoint, where nobody uses its memory.
  void begin_abort();
  // Workers are lost, and the others know since `detected`. Mutex held.
  void begin_losing(Seconds detected);
  // The loss is over: an error has come, and the run ends by that. Mutex held.
  void end_losing() { losing_ = false; }
  void wake_all();
  const std::vector<std::unique_ptr<Process>>& all() const { return processes_; }

 private:
  // No process can go on, as `error` says: aborts the run. Mutex held.
  virtual void deadlocked(std::exception_ptr error) = 0;
  // The world loses workers, and every process has halted or waits in vain. Mutex held.
  virtual void all_halted() = 0;
  // Counts `n` more processes of the kind of `me` as running, or fewer.
  void count(const Process& me, int n);
  bool held(const Process& me) const { return pause_.holds_back(me); }
  void await_signal(Lock& lock, Process& me);
  void go_to_sleep(Process& me);
  // Called wherever at_large_ falls, and always before fail_if_deadlocked(): the process whose
  // pause begins by this is woken, and the world is no deadlock.
  void pause_if_stopped();
  template <class After>
  void run_alone(Lock& lock, FunctionRef fn, After after);
  void end_pause() { end_pause(TrainingClock::monotonic_ns()); }
  void end_pause(std::int64_t at);
  void fail_if_deadlocked();

  const int cores_;
  bool oversubscribed_ = false;
  TrainingClock clock_;
  std::mutex mutex_;  // guards all below, but for the atomics
  std::vector<std::unique_ptr<Process>> processes_;
  int live_ = 0;
  int running_ = 0;   // processes that run, sleep for a time, or are signalled
  int at_large_ = 0;  // processes outside of blocking calls and sleeps
  // Processes in await_signal that spin. They are not running, but take a core each: more may spin
  // only while running_ + spinning_ < cores_.
  int spinning_ = 0;
  int waits_for_others_ = 0;  // processes in block_for_others
  int idle_ = 0;              // services that wait for requests
  Seconds detected_{0};       // since when the others know of a loss
  // Written under the mutex only. Read without it by threads that wait elsewhere (waiting.hpp); a
  // thread that holds the mutex can rely on it not to change.
  std::atomic<bool> aborting_ = false;
  std::atomic<bool> losing_ = false;
  std::atomic<bool> attention_ = false;  // any of these or a pause: safepoints take the slow path
  Pause pause_{clock_};
};

}  // namespace hetsgd::realtime
