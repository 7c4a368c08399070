// Watches for signals and the host time limit, and shows progress, without a call in any worker's
// path. What ends the run is written at once: after a signal, a launcher may leave a second until
// it kills.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cluster/cluster.hpp"
#include "training/driver.hpp"
#include "training/train_options.hpp"
#include "training/training.hpp"

namespace hetsgd {

class Watcher {
 public:
  // All must outlive it.
  Watcher(const TrainOptions& options, const TrainHooks& hooks, Driver& driver, Cluster& cluster);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  // Ends the watch: after this it touches nothing. Returns what it has ended the run with, if it
  // has; waits `patience` for that.
  std::optional<Interrupted> stop(std::chrono::milliseconds patience);

 private:
  void watch(const TrainOptions& options, const TrainHooks& hooks, Driver& driver,
             Cluster& cluster);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::optional<Interrupted> interrupted_;
  std::thread thread_;
};

}  // namespace hetsgd
