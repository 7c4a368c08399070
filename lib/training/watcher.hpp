// Watches for signals and the wall-clock time limit, and shows progress, without a call in any
// worker's path. An interruption is written to the record at once, because a launcher may kill the
// process a second after its signal.
//
//   made ── signal, limit ──> watch() ── progress, too ──> begin() ── the same ──> stop() ── joined
//              └ interrupted (once): whoever asks the Interruption throws it;
//                since watch(): cluster aborted, record written
//
// A thread of its own polls the signal's number. A signal handler may only set that number; it
// cannot notify a condition variable. The cluster is aborted before the record is written, so that
// the workers leave meanwhile.
//
// Locks: its own before the referee's. No code calls the watcher with the referee's lock held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cluster/cluster.hpp"
#include "core/host.hpp"
#include "core/non_copyable.hpp"
#include "training/referee.hpp"
#include "training/train_options.hpp"
#include "training/training.hpp"

namespace hetsgd {

// An Interruption tells work outside of the cluster that the run is to end, by a signal or the time
// limit. Set-up and measurement ask it, because with a large model or large data they take long.
class Interruption {
 public:
  // Asks the run to end, from any thread. The first reason counts.
  void request(const Interrupted& reason) {
    const std::lock_guard lock(mutex_);
    if (!reason_) reason_ = reason;
  }
  // Throws the reason if there is one, on any thread.
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
  // All arguments must outlive the watcher. The thread and the time limit start here.
  Watcher(const TrainOptions& options, const TrainHooks& hooks, Interruption& interruption);
  ~Watcher();
  // From here on an interruption aborts this cluster and writes the record. Both outlive stop().
  void watch(Referee& referee, Cluster& cluster);
  // The workers begin; Progress::host_s counts from here.
  void begin();
  // Ends the watch; after this it touches nothing. Returns the interruption that ended the run, if
  // there was one, and waits up to `patience` for it. Patience is for a run that failed because
  // another rank was lost. A signal to all ranks may show as that loss first, and is the better
  // reason. A second call returns the same.
  std::optional<Interrupted> stop(std::chrono::milliseconds patience);

 private:
  // The body of the thread, which runs until done_.
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
