// World: what the threads of one run share: who may run, who is blocked, the clock, the pause, the
// abort.
//
// One mutex guards all coordination state of a run (mailboxes, rendezvous, service queues,
// monitors). A process that has nothing to do blocks on a condition variable of its own; large
// copies and reductions happen outside the mutex. So three things are exact:
//   - deadlock: the number of processes that run or have been signalled is a plain counter; at 0
//     nobody can ever signal again;
//   - the pause: the world is stopped when every process is inside a blocking call, which it does
//     not leave before the pause ends (states: pause.hpp);
//   - the abort: a process is unwound only from a point at which nobody touches its memory.
//
// A process is in one of these states. The table says in which counters it stands; these change
// together with the state, under the mutex, so that they can be read as facts, not as estimates.
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
// The shape of every call of the vocabulary: enter() (a safepoint, returns with the mutex held);
// look at and change the shared state; block() if something is missing; give the mutex up for large
// copies; safepoint() at the end. lock() in place of enter() is for a part that others depend on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cluster/blocking.hpp"
#include "cluster/realtime/pause.hpp"
#include "cluster/realtime/process.hpp"
#include "cluster/realtime/training_clock.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::realtime {

class World : NonCopyable {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // cores: how many threads can run at once; decides who may spin before it sleeps.
  explicit World(int cores);

  // The process of the calling thread. Checked: the thread belongs to a run.
  static Process& current();

  // --- life of processes -------------------------------------------------------------------------
  // Starts a thread that calls body(). What body throws aborts the run. The world owns the process
  // until its own end, so that references to it stay good after the thread has ended. Any thread,
  // without the mutex, but not after Hooks::ended has returned. Error(runtime): there is no thread
  // to be had.
  Process& start(std::unique_ptr<Process> process, std::function<void(Process&)> body);
  // Called by a worker when it is set up; returns when the clock runs. Unwinds it if the run was
  // aborted before.
  void await_start();
  // Called by the run's owner, once: starts the clock when `workers` processes are set up, returns
  // when all workers and background tasks have ended and every thread is joined, and rethrows what
  // aborted the run. The caller's thread is no process of the run.
  void run(int workers) { run(workers, {}); }
  // What a run over several operating-system processes does besides. All may be empty.
  struct Hooks {
    // All are set up: returns the monotonic time, in ns, at which the clock starts.
    std::function<std::int64_t()> start;
    // All workers and background tasks have ended; services go on until it returns.
    std::function<void()> ended;
    // The run is aborted, by this error. Mutex held, so it must not call the world.
    std::function<void(std::exception_ptr)> aborted;
  };
  void run(int workers, Hooks hooks);
  // All processes in the order of their start. Only before run() and after it.
  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }

  // The abort, in states. It cannot be taken back, and the first error wins:
  //
  //                      abort(e)
  //   no abort ------------------------------> aborting, error_ = e --> run() rethrows it, when all
  //      |                                         ^                    processes are unwound
  //      | fail_with_what_unwinds()                | abort(e), as e leaves the process unwound_
  //      v                                         |
  //   aborting, error_ empty, unwound_ = the caller
  //
  // The lower way is for a destructor: it has to stop the others at once, as they use memory that
  // is about to go, but cannot know the exception that is passing through. If unwound_ ends without
  // that exception it has caught it, and the run fails with a CheckFailure that says so.
  //
  // Any thread.
  void abort(std::exception_ptr error);
  // The calling process is being unwound by an exception: the run fails with it, when it has left
  // the process. Mutex held.
  void fail_with_what_unwinds() {
    if (aborting_) return;
    unwound_ = &current();
    begin_abort();
  }

  // --- blocking ----------------------------------------------------------------------------------
  // The begin of every call of the vocabulary: takes the mutex, waits while the world is stopped.
  // Throws Unwind when the run is aborted, so a caller must not yet have lent its memory to others;
  // CheckFailure in the function of a pause or of a computation, where nobody answers.
  Lock enter();
  // The end of one, and where no mutex is needed. Without an abort or a pause it is one load.
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
  bool finishing() const { return finishing_; }  // mutex held: only services are left

  // --- waits that nobody here ends (waiting.hpp)
  // From here on, until come_back(), the calling process counts as stopped for a pause, and as
  // running for the detection of deadlocks. It may touch nothing that the function of a pause
  // touches, and must call come_back() on every path, since the counters are changed by both. They
  // do not throw. Mutex held, in all three; the latter two give it up while they wait.
  void step_aside(Lock& lock);
  // Returns when no pause holds the calling process back.
  void await_end_of_pause(Lock& lock);
  void come_back(Lock& lock);
  // A pause or an abort is on: what does not take the mutex must look.
  bool wants_attention() const { return attention_.load(std::memory_order_relaxed); }
  // A process that shares the cores with other ranks does not spin before it gives its core away.
  // Set before the first process starts.
  void set_oversubscribed(bool oversubscribed) { oversubscribed_ = oversubscribed; }
  bool oversubscribed() const { return oversubscribed_; }
  // Ends the calling process, when its background tasks have ended: throws Unwind. The run has been
  // aborted; the mutex is held, and is given up while it waits.
  [[noreturn]] void unwind(Lock& lock);

  // --- time --------------------------------------------------------------------------------------
  Seconds now() const { return clock_.now(); }
  Seconds paused() const { return clock_.paused(); }

  // --- the pause ---------------------------------------------------------------------------------
  // Endpoint::while_paused of the calling process. Waits for a pause that is on already, then for
  // the others to stop. What fn throws comes out here, after the pause.
  void while_paused(FunctionRef fn);
  // For a collective pause. stop_for, mutex held: from now on only `owner` may run; the clock stops
  // as soon as everybody else has stopped. The owner then calls run_stopped; others call park.
  void stop_for(Process& owner);
  void run_stopped(Lock& lock, FunctionRef fn);
  void park(Lock& lock);

  // --- pauses of all ranks (mpi), driven by a thread that is no process of this run --------------
  // block() for what others decide: while anybody is in it no deadlock is reported here, as another
  // rank can end the wait. The vote of all ranks (blocked_since) finds those deadlocks.
  void block_for_others(Lock& lock, const Wait& wait);
  // From now on nobody may run; stopped_at() is the monotonic time in ns at which nobody did any
  // more, or 0.
  void stop_from_outside();
  void stop_from_outside(Lock& lock);
  std::int64_t stopped_at();
  // The clock stands, since `at`; then goes on, since `at`. In between one process may be granted
  // the right to run: it is blocked, and calls run_granted.
  void freeze_from_outside(std::int64_t at);
  void grant(Process& process);  // mutex held
  void run_granted(Lock& lock, FunctionRef fn);
  void resume_from_outside(Lock& lock, std::int64_t at);
  // Since when (training clock) nobody here can go on without others, and who waits for what.
  // Empty: somebody can, or the world is stopped, or the run is aborted.
  std::optional<Seconds> blocked_since(std::vector<BlockedProcess>& waiting);

 private:
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
  void wake_all();
  void abort_locked(std::exception_ptr error);
  // Wakes everybody: each process finds aborting_ in its block() and is unwound from there, or goes
  // on to its next safepoint where it is in nobody's way.
  void begin_abort() {
    aborting_ = true;
    attention_ = true;
    if (pause_.is_outside()) end_pause();  // nobody can be relied on to end it
    wake_all();
    owner_woken_.notify_one();
  }
  // The exception that unwinds `me` has not left it.
  void fail_if_caught(const Process& me) {
    if (unwound_ != &me || error_) return;
    abort_locked(std::make_exception_ptr(
        CheckFailure(me.name + " has caught an exception that left a started call behind")));
  }
  void finish(Process& me);

  const int cores_;
  bool oversubscribed_ = false;
  TrainingClock clock_;
  std::mutex mutex_;                     // guards all below, but for the atomics
  std::condition_variable owner_woken_;  // of the thread in run()
  std::vector<std::unique_ptr<Process>> processes_;
  int live_ = 0;      // workers and background tasks that have not ended
  int running_ = 0;   // processes that run, sleep for a time, or are signalled
  int at_large_ = 0;  // processes outside of blocking calls and sleeps
  // Processes in await_signal that spin. They are not running, but take a core each: more may spin
  // only while running_ + spinning_ < cores_.
  int spinning_ = 0;
  int waits_for_others_ = 0;  // processes in block_for_others
  int set_up_ = 0;            // workers that have come to await_start
  bool started_ = false;      // the clock runs, or has run
  bool finishing_ = false;    // live_ has come down to 0: services end when their queues are empty
  // Written under the mutex only. Read without it by threads that wait elsewhere (waiting.hpp); who
  // holds the mutex can rely on it not to change.
  std::atomic<bool> aborting_ = false;
  std::function<void(std::exception_ptr)> aborted_;  // Hooks::aborted; empty before run()
  std::exception_ptr error_;                         // what run() rethrows
  Process* unwound_ = nullptr;                       // by the exception that will be error_
  std::atomic<bool> attention_ = false;  // aborting or pausing: safepoints take the slow path
  Pause pause_{clock_};
};

}  // namespace hetsgd::realtime
