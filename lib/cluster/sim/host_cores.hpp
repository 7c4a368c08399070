// HostCores: the cores of one host in virtual time, which everything that the host computes shares
// (`--host-cores`).
//
// Without the option each worker has a device of its own (DeviceTimeline), services compute beside
// it, and copying costs no computing. On one host the threads of all of them take turns. A task is
// a piece of work for one core:
//
//   computations   of workers whose profile is a CPU's, main processes and background tasks alike
//   services       the work of a request
//   copies         of a collective: a task for each rank, as long as its bytes take on the links;
//                  of a message, a request or an answer: one task as long as its bytes take
//
// A delay of --straggler or a --speed below 1 is a sleep after the computation, as on real
// clusters: it takes no core. It grows with the time that the computation took, waiting included.
//
// The rule is the fair share of the Linux scheduler without its time slices. With N cores and n
// tasks each goes on at the rate
//
//   r(n) = min(1, C / n),   C = max(N - p k, N n / (n + k))
//
// k processes wait for other ranks by polling (below). Each takes p of a core, but never more than
// a task's share. So N tasks or fewer run undisturbed, and each of 2 N tasks takes twice as long.
//
// All tasks have one rate, so one number tells the progress of all: the virtual time V with
// dV/dt = r. A task of `seconds` that starts at V ends when the virtual time is V + seconds. Tasks
// are kept by these ends, and only the first has an event:
//
//   start()                     the event of the first        done(object), in that event
//   ---------> among the tasks ------------------------> gone -------------------------->
//                   |    a change of r moves all ends in time, never their order
//                   | ~Task (cut short, or its owner is unwound)
//                   +--------> gone, nobody is told
//
// Waits. A process that waits for long sleeps, and finds the end of its wait later than it came:
//
//   late(w) = 0                        w <= wake: it has spun for so long
//             wake                     threads, and monitors anywhere: the kernel wakes the thread
//             min(w / 8, poll) / 2     mpi, for others: it polls between sleeps (waiting.cpp) of an
//                                      eighth of its wait, at most `poll`; on average half of one
//
// wake, poll and p are those of the network model (wake_s, poll_s, poll_core_share), which
// `hetsgd calibrate network` measures. A service that waits for requests polls or is woken too.
// Under mpi each rank has a thread for control messages that polls about every millisecond
// (kControlPolls).
//
// Not modelled: time slices, pinning, caches that a neighbour empties, and hyper-threads.
//
// Used on the event loop's thread; times are virtual seconds. O(log n) per start and end.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "cluster/sim/engine.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::sim {

// How processes of a host wait. All zero: they notice at once, and take nothing meanwhile.
struct HostWaits {
  double wake_s = 0, poll_s = 0, poll_core_share = 0;
};

class HostCores : NonCopyable {
 public:
  // cores: 0 means that nothing is shared, and nobody may start a task then (checked).
  HostCores(Engine& engine, int cores, HostWaits waits);

  bool shared() const { return cores_ > 0; }
  bool polls() const { return shared() && waits_.poll_s > 0; }

  // A piece of work. It stays where it is while it runs, and goes before the cores.
  class Task : NonCopyable {
   public:
    Task() = default;
    ~Task() { stop(); }
    // Takes `seconds` >= 0 on a core of its own; then done(object) is called in an event. The task
    // may start again from there on. Checked: it does not run.
    void start(HostCores& cores, double seconds, Engine::Handler done, void* object);
    // Ends it without a call.
    void stop();
    bool runs() const { return cores_ != nullptr; }

   private:
    friend class HostCores;
    HostCores* cores_ = nullptr;  // null: it does not run
    std::pair<double, std::uint64_t> key_{};
    Engine::Handler done_ = nullptr;
    void* object_ = nullptr;
  };

  // Processes that poll for what other ranks do, from now on more or (below 0) fewer by so many.
  // Nothing where processes are woken.
  void add_polling(double processes);
  // How much later than it came the end of a wait of `waited` seconds is found. others: the wait
  // was for other ranks or for a request. 0 where nothing is shared.
  double late(double waited, bool others) const;

 private:
  // Brings the virtual time up to now; before every change of the rate.
  void advance();
  // Sets the rate for the tasks that there are, and sees to an event at the first end.
  void settle();
  double end_of_first() const;
  static void due(void* object);  // the event

  Engine& engine_;
  const int cores_;
  const HostWaits waits_;
  double polling_ = 0;                                       // k
  std::map<std::pair<double, std::uint64_t>, Task*> tasks_;  // by virtual end, then by start
  std::uint64_t started_ = 0;
  double virtual_ = 0, at_ = 0, rate_ = 1;
  double scheduled_;  // time of the event that counts; others are void
};

}  // namespace hetsgd::sim
