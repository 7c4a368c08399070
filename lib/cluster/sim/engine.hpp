// Engine: the discrete-event core of the `sim` cluster: virtual time, events, processes.
//
// A process is a fiber. Exactly one runs at a time, on the thread that called run(). The next event
// is the one with the smallest (virtual time, order). Order is the sequence in which events were
// scheduled, except for arrivals of messages and requests: at equal times these come after all
// other events, lowest rank first. Virtual time never depends on the host: not on its load, not on
// its number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/blocking.hpp"
#include "cluster/ledger.hpp"
#include "cluster/node.hpp"
#include "cluster/sim/event_queue.hpp"
#include "cluster/sim/fiber.hpp"
#include "cluster/sim/host_pool.hpp"

namespace hetsgd::sim {

// One simulated process. Its fields are the engine's, except `ledger`.
class alignas(64) Process {
 public:
  Process(StackPool& stacks, int rank_, std::string companion_, std::function<void()> body)
      : fiber(stacks, std::move(body)), rank(rank_), companion(std::move(companion_)) {}

  std::string name() const;

 private:
  friend class Engine;
  // Why it is blocked: a callable on its own stack, asked only for a deadlock report. These and the
  // fiber's first fields share a cache line.
  const void* reason = nullptr;
  std::string (*describe)(const void* reason) = nullptr;
  double since = 0;
  Fiber fiber;
  std::size_t index = 0;  // in Engine::processes_

 public:
  const int rank;
  const std::string companion;  // empty: the worker's main process
  Ledger* ledger = nullptr;     // where its time goes
};

// What a switch passes through is inline: after a switch the processor mispredicts every return.
class Engine {
 public:
  using Handler = void (*)(void* object);

  // host_threads as in ClusterOptions. `ended(process)` is called on the event loop when a process
  // has returned, before it is destroyed.
  Engine(int host_threads, std::function<void(Process&)> ended);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  double now() const { return now_; }
  std::uint64_t events() const { return events_; }
  HostPool& pool() { return pool_; }

  // --- events --------------------------------------------------------------------------------
  // Calls handler(object) at `time` >= now(), on the event loop.
  void at(double time, Handler handler, void* object);
  // The same for an arrival: after all others of that time, by rank. Rank < 2^20.
  void at_arrival(double time, int rank, Handler handler, void* object);

  // --- processes -----------------------------------------------------------------------------
  // A process that starts now. Its body runs when the event loop comes to it.
  Process& spawn(int rank, std::string companion, Ledger* ledger, std::function<void()> body);
  // The running process. Checked: there is none on the event loop, as in a service's handler or a
  // fence; `call` names the vocabulary's call that is not possible there.
  Process& current(std::string_view call) {
    if (current_ == nullptr) [[unlikely]] {
      refuse(call);
    }
    return *current_;
  }
  // Stops the running process until wake() or an event of its own resumes it. `describe()` says in
  // words where it is blocked.
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
  // Schedules the blocked process to go on now.
  void wake(Process& process) { wake_at(now_, process); }
  void wake_at(double time, Process& process);
  // From an event's handler: runs the blocked process until it blocks again or ends.
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
  // Virtual time does not move; all computations that have started are finished before.
  void off_the_clock(FunctionRef fn);

  // --- the run -------------------------------------------------------------------------------
  // Returns when all processes have. Rethrows the first error; the others are unwound then.
  void run();
  // Any thread: run() throws `error` before its next event.
  void abort(std::exception_ptr error);
  // Processes are being unwound: nothing blocks any more, and nobody else runs.
  bool tearing_down() const { return tearing_down_; }

 private:
  void push(double time, std::uint64_t order, Handler handler, void* object);
  [[noreturn]] static void refuse(std::string_view call);
  void end(Process& process);
  void loop();
  void tear_down() noexcept;
  Error deadlock() const;

  HostPool pool_;
  std::function<void(Process&)> ended_;
  StackPool stacks_;
  std::vector<std::unique_ptr<Process>> processes_;  // alive ones, in no order
  EventQueue queue_;                                 // a null handler: resume the process `object`
  double now_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t events_ = 0;
  int idle_calls_ = 0;
  Process* current_ = nullptr;
  const FunctionRef* off_the_clock_ = nullptr;  // what the process that just stopped wants run
  std::exception_ptr off_the_clock_error_;
  bool tearing_down_ = false;
  std::atomic<bool> aborted_ = false;
  std::mutex abort_mutex_;
  std::exception_ptr abort_error_;
};

}  // namespace hetsgd::sim
