// Watches for signals and the host time limit, and shows progress, without a call in any worker's
// path. What ends the run is written at once: after a signal, a launcher may leave a second until
// it kills. Before the workers begin (the initial model is measured) it shows progress alone.
//
//   made ── progress ──> begin() ── progress, signal, limit ──> stop() ── joined
//                                        └ interrupted (once): cluster aborted, record written
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
#include "training/referee.hpp"
#include "training/train_options.hpp"
#include "training/training.hpp"

namespace hetsgd {

class Watcher {
 public:
  // All must outlive it. The thread starts here, as the last member.
  Watcher(const TrainOptions& options, const TrainHooks& hooks, Referee& referee, Cluster& cluster);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  // The workers begin: the time limit counts from here, on the host's clock, measuring included.
  void begin();
  // Ends the watch: after this it touches nothing. Returns what it has ended the run with, if it
  // has; waits `patience` for that. Patience is for a run that has failed because another rank was
  // gone: a signal that went to all ranks may show there first, and is the better reason. A second
  // call returns the same.
  std::optional<Interrupted> stop(std::chrono::milliseconds patience);

 private:
  // The thread: until done_.
  void watch();
  // Mutex held.
  void interrupt_if_due(double host_s);

  const TrainOptions& options_;
  const TrainHooks& hooks_;
  Referee& referee_;
  Cluster& cluster_;

  std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::optional<HostClock::time_point> begun_;
  bool done_ = false;
  std::optional<Interrupted> interrupted_;
  std::thread thread_;
};

}  // namespace hetsgd
