// Watches for signals and the host time limit, and shows progress, without a call in any worker's
// path. What ends the run is written at once: after a signal, a launcher may leave a second until
// it kills.
//
//   made ── signal, limit ──> watch() ── progress, too ──> begin() ── the same ──> stop() ── joined
//              └ interrupted (once): whoever asks the Interruption throws it;
//                since watch(): cluster aborted, record written
//
// A thread of its own looks at the signal's number now and then: a handler may do no more than set
// it, and a condition variable cannot be notified from one. The cluster is aborted before the
// record is written, so that the workers leave meanwhile.
//
// Locks: its own before the referee's. Nobody who holds the referee's lock calls the watcher.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cluster/cluster.hpp"
#include "core/host_clock.hpp"
#include "core/non_copyable.hpp"
#include "training/referee.hpp"
#include "training/train_options.hpp"
#include "training/training.hpp"

namespace hetsgd {

// Interruption: how work that no cluster knows of learns that its run is to end, by a signal or the
// time limit: setting up, and measuring, which take as long as the model and the data are large.

class Interruption {
 public:
  // Any thread; the first one counts.
  void request(const Interrupted& reason) {
    const std::lock_guard lock(mutex_);
    if (!reason_) reason_ = reason;
  }
  // Throws the reason, if there is one. Any thread.
  void check() const {
    const std::lock_guard lock(mutex_);
    if (reason_) throw Interrupted(*reason_);
  }

 private:
  mutable std::mutex mutex_;  // guards reason_
  std::optional<Interrupted> reason_;
};

class Watcher : NonCopyable {
 public:
  // All must outlive it. The thread starts here, as the last member, and so does the time limit.
  Watcher(const TrainOptions& options, const TrainHooks& hooks, Interruption& interruption);
  ~Watcher();
  // There is something to interrupt; both outlive stop().
  void watch(Referee& referee, Cluster& cluster);
  // The workers begin.
  void begin();
  // Ends the watch: after this it touches nothing. Returns what it has ended the run with, if it
  // has; waits `patience` for that. Patience is for a run that has failed because another rank was
  // gone: a signal that went to all ranks may show there first, and is the better reason. A second
  // call returns the same.
  std::optional<Interrupted> stop(std::chrono::milliseconds patience);

 private:
  // The thread: until done_.
  void run();
  // Mutex held.
  void interrupt_if_due();

  const TrainOptions& options_;
  const TrainHooks& hooks_;
  Interruption& interruption_;
  const HostClock::time_point made_ = HostClock::now();

  std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  Referee* referee_ = nullptr;  // null: not made yet
  Cluster* cluster_ = nullptr;
  std::optional<HostClock::time_point> begun_;
  bool done_ = false;
  std::optional<Interrupted> interrupted_;
  std::thread thread_;
};

}  // namespace hetsgd
