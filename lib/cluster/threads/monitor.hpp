// ThreadsMonitor: lock and condition on the world's mutex, so that a deadlock report sees who waits
// for what.
//
// lock() is a safepoint before the lock is taken, wait() while it is given back: a process that is
// stopped by a fence between calls of the vocabulary holds no monitor, and the function of a fence
// may lock one. When the run is aborted wait() throws without the lock; the unlock() of a guard
// that follows is then harmless.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "cluster/threads/world.hpp"

namespace hetsgd::threads {

class ThreadsMonitor final : public Monitor {
 public:
  explicit ThreadsMonitor(World& world) : world_(world) {}

  void lock() override;
  void unlock() override;
  void wait(const std::function<bool()>& ready, std::string_view what) override;
  void notify_all() override;

 private:
  struct Waiter {
    Process* process = nullptr;
    bool notified = false;
  };
  void acquire(World::Lock& guard);
  void release();

  World& world_;
  Process* holder_ = nullptr;
  std::vector<Process*> queue_;   // for the lock
  std::vector<Waiter*> waiters_;  // for a notification; each on its process's stack
};

}  // namespace hetsgd::threads
