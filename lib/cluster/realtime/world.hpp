// World: the state that the threads of one run share. Its Scheduler says which threads may run; the
// world adds how their life begins and ends, and the abort.
//
// The run, on the thread of its owner (run()), which is no process:
//
//   start() of    all workers have called    Hooks::start       no worker and background
//   the workers   await_start()              gives the origin   task is left                 joined
//   ------------> being set up ------------> clock runs ------> finishing: services end ---> over
//                        |                      |                  ^
//                        |   abort()            |   abort()        |  all have unwound
//                        +----------------------+------------------+
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "cluster/realtime/scheduler.hpp"
#include "core/error.hpp"

namespace hetsgd::realtime {

// Ends a segment of a run whose workers are lost: no error.
struct LostWorkers {
  Seconds detected{0};
};

class World final : public Scheduler {
 public:
  explicit World(int cores) : Scheduler(cores) {}

  // Starts a thread that calls body(). An exception of body aborts the run. The world owns the
  // process until its own end, so that references to it stay good after the thread has ended. Any
  // thread, without the mutex, but not after Hooks::ended has returned. Throws Error(runtime) if no
  // thread can be started.
  Process& start(std::unique_ptr<Process> process, std::function<void(Process&)> body);
  // Called by a worker when it is set up; returns when the clock runs. Unwinds it if the run was
  // aborted before.
  void await_start();
  // Called by the run's owner, once. Starts the clock when `workers` processes are set up. Returns
  // when all workers and background tasks have ended and every thread is joined. Rethrows the
  // exception that aborted the run. The caller's thread is no process of the run.
  void run(int workers) { run(workers, {}); }
  // Additional steps of a run over several operating-system processes. All may be empty.
  struct Hooks {
    // All are set up: returns when the clock starts, as a monotonic time in ns.
    std::function<std::int64_t()> start;
    // All workers and background tasks have ended; services go on until it returns.
    std::function<void()> ended;
    // The run is aborted, by this error. Mutex held, so it must not call the world.
    std::function<void(std::exception_ptr)> aborted;
  };
  void run(int workers, Hooks hooks);
  // All processes in the order of their start. Only before run() and after it.
  const std::vector<std::unique_ptr<Process>>& processes() const { return all(); }

  // The abort, in states. It cannot be taken back. The first error wins, but a loss of workers is
  // no error, and gives way to any:
  //
  //   no abort      --abort(e)-----------------> failed
  //   no abort      --fail_with_what_unwinds()-> unwinding
  //   unwinding     --abort(e)-----------------> failed, as e leaves the process unwound_
  //   no abort      --lose()-------------------> losing
  //   losing        --all_halted()-------------> lost
  //   losing, lost  --abort(e)-----------------> failed
  //
  //               aborting()  losing()  error_
  //   failed      true        false     e, which run() rethrows when all processes are unwound
  //   unwinding   true        false     empty; unwound_ is the caller
  //   losing      false       true      LostWorkers
  //   lost        true        true      LostWorkers, which run() throws when all are unwound
  //
  // fail_with_what_unwinds() is for a destructor: it has to stop the others at once, as they use
  // memory that is about to go. It cannot know the exception that is passing through. If unwound_
  // ends without that exception it has caught it, and the run fails with a CheckFailure that says
  // so.
  //
  // Any thread.
  void abort(std::exception_ptr error);
  // The segment ends because workers are lost, which the others know since `detected`: run() throws
  // LostWorkers when all that had begun has ended (scheduler.hpp). An error that comes until then
  // makes it an abort by that error. False: workers are lost already, or the run is aborted. Any
  // thread.
  bool lose(Seconds detected);
  // The calling process is being unwound by an exception: the run fails with it, when it has left
  // the process. Mutex held.
  void fail_with_what_unwinds() {
    if (aborting()) return;
    unwound_ = &current();
    stop_all();
  }
  bool finishing() const { return finishing_; }  // mutex held: only services are left

 private:
  void deadlocked(std::exception_ptr error) override { abort_locked(std::move(error)); }
  void all_halted() override { stop_all(); }
  void abort_locked(std::exception_ptr error);
  // Nobody may go on, and the owner looks.
  void stop_all() {
    begin_abort();
    owner_woken_.notify_one();
  }
  // The exception that unwinds `me` has not left it.
  void fail_if_caught(const Process& me) {
    if (unwound_ != &me || error_) return;
    abort_locked(std::make_exception_ptr(
        CheckFailure(me.name + " has caught an exception that left a started call behind")));
  }
  void finish(Process& me);

  // Guarded by the mutex.
  std::condition_variable owner_woken_;              // wakes the thread in run()
  int set_up_ = 0;                                   // workers that have come to await_start
  bool finishing_ = false;                           // live() has come down to 0
  std::function<void(std::exception_ptr)> aborted_;  // Hooks::aborted; empty before run()
  std::exception_ptr error_;                         // what run() rethrows
  Process* unwound_ = nullptr;                       // unwound; its exception will be error_
};

}  // namespace hetsgd::realtime
