// Watches for signals and the host time limit, and shows progress, without a call in any worker's
// path.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "cluster/cluster.hpp"
#include "training/driver.hpp"
#include "training/train_options.hpp"
#include "training/training.hpp"

namespace hetsgd {

// Thrown into a run by the watcher; becomes the record's status.
struct Interrupted : std::runtime_error {
  Interrupted(Status s, const std::string& why) : std::runtime_error(why), status(s) {}
  Status status;
};

class Watcher {
 public:
  // All must outlive it.
  Watcher(const TrainOptions& options, const TrainHooks& hooks, Driver& driver, Cluster& cluster);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  // What it has ended the run with, if it has.
  std::optional<Interrupted> interrupted() const;

 private:
  void watch(const TrainOptions& options, const TrainHooks& hooks, Driver& driver,
             Cluster& cluster);

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::optional<Interrupted> interrupted_;
  std::thread thread_;
};

}  // namespace hetsgd
