// Engine: the discrete-event core of the `sim` cluster: virtual time, events, processes.
//
// A process is a fiber. Exactly one runs at a time, on the thread that called run(). The next event
// is the one with the smallest (virtual time, order). Events of equal time keep the order of their
// scheduling, except for arrivals of messages and requests: these come after all other events,
// lowest rank first. Virtual time never depends on the host: not on its load, not on its number of
// threads.
//
// A process:
//
//                 its event              block()
//   scheduled -----------------> running -----------> blocked
//    ^     ^                     |    ^                |    |
//    |     |                     |    +----------------+    |
//  spawn() |                     |     a handler's resume() |
//          |                     v its body returns         |
//          |                   ended, destroyed             |
//          +------------------------------------------------+
//                         wake(), wake_at()
//
// A blocked process has at most one event or object that resumes it: its waker forgets it first (a
// mailbox its receiver, a monitor its waiter). So no event outlives its process.
//
// The run:
//
//   loop --(all processes have ended)--> run() returns; events that are left are never handled
//     |
//     +--(workers are lost, and no event is left)--> run() returns; the rest is unwound
//     |
//     +--(an exception, abort(), no event left: deadlock)--> tear_down: computations are forgotten,
//        fibers unwound in any order --> run() rethrows
//
// Threads: the event loop, the processes and all handlers are one thread, so nothing here is locked
// but what abort() writes. Only functions of computations run elsewhere (host_pool.hpp).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/blocking.hpp"
#include "cluster/endpoint.hpp"
#include "cluster/sim/fiber.hpp"
#include "cluster/sim/host_pool.hpp"
#include "cluster/worker_account.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::sim {

// EventQueue: the events of a simulation by (time, order), smallest first.
//
// A heap of its own instead of std::priority_queue. It has four children per node, keys that
// compare without branches, and siblings that share cache lines, so it is much faster (compare with
// sim_bench). The key is unique, so equal times are taken out in one order only; a heap alone
// promises none.
//
// push and pop take O(log n), top O(1). There is no removal from the middle: an event that has
// become void stays, and its handler finds out (Alarm in world.hpp). Nothing is freed before the
// end.

// A call of a handler at a virtual time. `object` is the handler's, and not owned. 32 bytes: two in
// a cache line.
struct Event {
  std::uint64_t time;   // the bits of a double >= 0, which order as whole numbers
  std::uint64_t order;  // unique
  void (*handler)(void* object);
  void* object;

  double seconds() const { return std::bit_cast<double>(time); }
};

class EventQueue {
 public:
  // The places before the root stay unused; see kFirst.
  EventQueue() : heap_(kFirst) {}

  bool empty() const { return heap_.size() == kFirst; }

  // time >= 0, not NaN, not infinite (Engine checks): only the bits of such doubles order as whole
  // numbers do. order: unique among all events. The new event climbs as long as its parent is
  // later; the parents move down instead of being swapped.
  void push(double time, std::uint64_t order, void (*handler)(void*), void* object) {
    // + 0.0 turns -0.0 into 0.0.
    const Event event{std::bit_cast<std::uint64_t>(time + 0.0), order, handler, object};
    std::size_t at = heap_.size();
    heap_.push_back(event);
    while (at > kFirst) {
      const std::size_t parent = at / 4 + kFirst - 1;
      if (!before(event, heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }

  // The smallest; not for an empty queue.
  const Event& top() const { return heap_[kFirst]; }
  // Removes and returns the smallest; not for an empty queue.
  Event pop() {
    const Event smallest = heap_[kFirst];
    const Event last = heap_.back();
    heap_.pop_back();
    if (!empty()) sift_down(last);
    return smallest;
  }

 private:
  // The root stands at 3 and the children of i at 4 (i - 2) to 4 (i - 2) + 3: each family begins at
  // a multiple of 128 bytes, relative to the start. Four siblings so lie in two cache lines where
  // the heap is aligned, and in three at most.
  //
  //   index    0 1 2     3      4  5  6  7     8 .. 11      12 .. 15   ...
  //            unused   root   its children   those of 4   those of 5
  static constexpr std::size_t kFirst = 3;

  // Uses bits and not conditions (| and &, not || and &&): the outcome is random, and a branch
  // would be mispredicted half of the time.
  static bool before(const Event& a, const Event& b) {
    return (a.time < b.time) | ((a.time == b.time) & (a.order < b.order));
  }

  // Puts `last` in place of the root: the hole at the root moves down to the earliest child until
  // `last` fits into it. The four children of a full family are compared in pairs, whose two
  // results do not depend on each other; only the last family can be incomplete.
  void sift_down(const Event& last) {
    const std::size_t end = heap_.size();
    std::size_t at = kFirst;
    for (;;) {
      const std::size_t child = 4 * (at - kFirst + 1);
      if (child >= end) break;
      std::size_t least = child;
      if (child + 4 <= end) {
        const std::size_t left = child + before(heap_[child + 1], heap_[child]);
        const std::size_t right = child + 2 + before(heap_[child + 3], heap_[child + 2]);
        least = before(heap_[right], heap_[left]) ? right : left;
      } else {
        for (std::size_t i = child + 1; i < end; ++i)
          least = before(heap_[i], heap_[least]) ? i : least;
      }
      if (!before(heap_[least], last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = last;
  }

  std::vector<Event> heap_;  // from kFirst on
};

// One simulated process, owned by the engine from spawn() to its end. Its fields are the engine's,
// except `breakdown` and `account`: code that makes the process wait or compute adds to these.
class alignas(64) Process {
 public:
  Process(StackPool& stacks, int rank_, std::string background_task_, std::function<void()> body)
      : fiber(stacks, std::move(body)), rank(rank_), background_task(std::move(background_task_)) {}

  std::string name() const;
  bool is_lost() const { return lost; }

 private:
  friend class Engine;
  // Why it is blocked: a callable on its own stack, asked only for a deadlock report, so that
  // blocking builds no text. Valid from its first block() on; every live process has called it when
  // there is no event left. These and the fiber's first fields share a cache line: all that a
  // switch touches.
  const void* reason = nullptr;
  std::string (*describe)(const void* reason) = nullptr;
  double since = 0;  // virtual seconds
  Fiber fiber;
  std::size_t index = 0;  // in Engine::processes_
  bool lost = false;      // never resumed again
  bool leaving = false;   // lost at its next call

 public:
  const int rank;
  const std::string background_task;   // empty: the worker's main process
  TimeBreakdown* breakdown = nullptr;  // where its time goes
  bool computes = false;               // waits for the end of a computation
  bool awaits_others = false;          // waits for other ranks or a service
  WorkerAccount* account = nullptr;    // its worker's account, once the worker has background tasks

  // Notes for the account when a time was spent that the breakdown counts as `communicate`; virtual
  // seconds.
  void communicated(double begin, double end) {
    if (account != nullptr) account->communicated(Seconds(begin), Seconds(end));
  }
};

// Functions that a switch passes through are inline: after a switch the processor mispredicts every
// return.
class Engine : NonCopyable {
 public:
  using Handler = void (*)(void* object);

  struct Hooks {
    // A process has returned, and is destroyed afterwards; not for one that is unwound or throws.
    std::function<void(Process&)> ended;
    // No event is left, but there are processes: they are in a deadlock unless it returns true.
    std::function<bool()> idle;
    // When a process of this worker can begin to communicate, from `now` on. Null: at once.
    std::function<double(int worker, double now)> reachable = nullptr;
    // How much later a process goes on that has waited so long, for other ranks or not, and is
    // woken. Null: at once.
    std::function<double(double waited, bool others)> late = nullptr;
  };
  // host_threads as in ClusterOptions. Hooks are called on the event loop.
  Engine(int host_threads, Hooks hooks);
  ~Engine();

  // Virtual seconds since the start of the run. Stands while a handler or a process runs.
  double now() const { return now_; }
  std::uint64_t events() const { return events_; }
  HostPool& pool() { return pool_; }

  // The clock goes on at `time`, which may be earlier than now(). No event may be left (checked).
  void set_clock(double time);

  // --- the loss of workers (cluster/segment.hpp) --------------------------------------------
  // Processes of this worker are not resumed any more. Their stacks stay as they are, since events
  // and other processes refer to them. An event handler calls it. finishes: one that computes goes
  // on until its next call (enter).
  void lose(int worker, bool finishes);
  // Whether the main process of this worker has neither returned nor been lost.
  bool runs(int worker) const;
  // From now on no process begins to communicate (begin_communication), and the run ends when
  // nothing else is left to do. `time` of an unfinished process: since when it waits, or the end.
  void close() { closing_ = true; }
  bool closing() const { return closing_; }
  // When the run was closed: since when the main process of this worker waits; none: it has
  // returned.
  std::optional<double> waits_since(int worker) const;
  // Returns the running process, unless it is lost: then it goes no further.
  Process& enter(std::string_view call) {
    Process& self = current(call);
    if (self.leaving && !tearing_down_) [[unlikely]] {
      stand_still(self);
    }
    return self;
  }
  // The same before a process communicates, which waits until it can.
  Process& reach(std::string_view call) {
    Process& self = enter(call);
    if (hooks_.reachable && !tearing_down_) [[unlikely]] {
      await_reach(self);
    }
    return self;
  }
  // The same for what the others take part in: if the run is closed, the process goes no further.
  Process& begin_communication(std::string_view call) {
    Process& self = reach(call);
    if (closing_ && !tearing_down_) block([] { return "the view has lost a worker"; });
    return self;
  }

  // --- events --------------------------------------------------------------------------------
  // Calls handler(object) at `time` >= now() (checked, and finite), on the event loop. An event
  // cannot be taken back, so `object` must live until then, or until the run has ended. A field of
  // the object can say that the event has become void (Alarm in world.hpp). O(log n) of n events.
  void at(double time, Handler handler, void* object);
  // The same for an arrival: after all others of that time, by rank. Rank < 2^20. Without the order
  // by rank the first sender would be the one that was resumed first. A change elsewhere in the
  // algorithm would reverse that.
  void at_arrival(double time, int rank, Handler handler, void* object);

  // --- processes -----------------------------------------------------------------------------
  // A process that starts now. Its body runs when the event loop comes to it. `breakdown` lives as
  // long as its body, and so does `account`, which may be null; `background_task` is empty for the
  // worker's main process. Called from anywhere on the event loop's thread.
  Process& spawn(int rank, std::string background_task, TimeBreakdown* breakdown,
                 WorkerAccount* account, std::function<void()> body);
  // The running process. Checked: there is none on the event loop, as in a service's handler or a
  // pause, nor in the function of a computation, whichever thread it is on; `call` names the
  // vocabulary's call that is not possible there.
  Process& current(std::string_view call) {
    if (InComputation::now() || current_ == nullptr) [[unlikely]] {
      refuse(call);
    }
    return *current_;
  }
  // Stops the running process until wake() or an event of its own resumes it. `describe()` says in
  // words where it is blocked. Throws FiberUnwind when the run is torn down, but returns at once in
  // a destructor that runs then (Fiber::suspend). A caller must not take its return for the answer
  // that it waited for, unless tearing_down() is false.
  template <class Describe>
  void block(const Describe& describe) {
    Process& self = current("a blocking call");
    self.reason = &describe;
    self.describe = [](const void* reason) {
      return std::string((*static_cast<const Describe*>(reason))());
    };
    self.since = now_;
    idle_calls_ = 0;
    self.fiber.suspend();
  }
  // Schedules the blocked process to go on now, after the events that are already due at this time.
  // Once: a second wake for one block would resume it out of its next one. Returns how much later
  // it goes on (Hooks::late).
  double wake(Process& process) {
    const double late = hooks_.late ? hooks_.late(now_ - process.since, process.awaits_others) : 0;
    wake_at(now_ + late, process);
    return late;
  }
  void wake_at(double time, Process& process);
  // Called from an event's handler: runs the blocked process until it blocks again or ends. Runs
  // the process inside the current event, where wake() schedules a new one. Not from a process,
  // because fibers do not nest. Throws what leaves the body.
  void resume(Process& process);
  // Stops the running process until `time`.
  void sleep_until(double time) {
    wake_at(time, current("sleep"));
    block([time] { return fmt::format("sleeps until {:.3f} s", time); });
  }

  // Counts calls that let no time pass, since the running process blocked last; the millionth is a
  // check failure, as the loop around it could never end.
  void count_idle_call(std::string_view call);

  // Runs fn on the event loop's stack, which is as deep as the thread's, while the process waits.
  // Virtual time does not move; all computations that have started are finished before, so that fn
  // sees every worker's memory at rest (even those whose computations are due only later). fn must
  // not block: there is no current process meanwhile. Throws what fn throws.
  void off_the_clock(FunctionRef fn);

  // --- the run -------------------------------------------------------------------------------
  // Returns when all processes have. Rethrows the first error; the others are unwound then.
  void run();
  // Any thread: run() throws `error` before its next event. The first one counts; without effect
  // when all processes have returned. The process that is running goes on until it blocks.
  void abort(std::exception_ptr error);
  // Processes are being unwound: nothing blocks any more, and nobody else runs.
  bool tearing_down() const { return tearing_down_; }
  // Ends a call that goes on behind the running process and uses memory of its caller
  // (PendingCall::settle). If it is not complete, wait() blocks for it. With `failing` the run
  // fails before its next event instead, with the exception that unwinds the process unless it is
  // caught. It fails that early so that no handler meets the memory that is gone. The exception
  // that unwinds the process leaves its body first and wins over the one given to abort().
  template <class Wait, class Describe>
  void settle(bool complete, bool failing, const Wait& wait, const Describe& describe) noexcept {
    if (complete || tearing_down_) return;
    if (failing) return fail_for(describe());
    try {
      wait();
    } catch (...) {  // torn down: the next blocking call throws again
    }
  }

 private:
  // `order` without its sequence, which is added here.
  void push(double time, std::uint64_t order, Handler handler, void* object);
  void fail_for(const std::string& left_behind);
  void stand_still(Process& self);
  void await_reach(Process& self);
  [[noreturn]] static void refuse(std::string_view call);
  void end(Process& process);
  void loop();
  void tear_down() noexcept;
  Error deadlock() const;

  // The order matters at the end: processes give their stacks back, and their tasks leave the pool.
  HostPool pool_;
  Hooks hooks_;
  StackPool stacks_;
  std::vector<std::unique_ptr<Process>> processes_;  // alive ones, in no order
  std::vector<BlockedProcess> ended_workers_;        // main processes, for a deadlock report
  EventQueue queue_;                                 // a null handler: resume the process `object`
  double now_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t events_ = 0;
  int idle_calls_ = 0;                          // calls of the running process; block() resets it
  Process* current_ = nullptr;                  // null on the event loop itself
  const FunctionRef* off_the_clock_ = nullptr;  // what the process that just stopped wants run
  std::exception_ptr off_the_clock_error_;
  bool tearing_down_ = false;  // once true, it stays true
  bool closing_ = false;
  std::size_t lost_ = 0;                             // processes that are lost
  std::vector<std::pair<int, double>> left_behind_;  // main processes that the end unwinds
  // The flag is read before every event, hence apart from the mutex, which guards the error alone.
  std::atomic<bool> aborted_ = false;
  std::mutex abort_mutex_;
  std::exception_ptr abort_error_;
};

}  // namespace hetsgd::sim
