// ThreadsMonitor: lock and condition on the world's mutex, so that a deadlock report sees who waits
// for what.
//
// A process and one monitor; holder_ names who holds it, queue_ and waiters_ list the others:
//
//             lock(), taken               holder_ is null
//   outside ---------------> queued ----------------------> holds
//      |  ^                                                 ^ |  |
//      |  |  lock(), free                                   | |  | wait(), not ready: gives it back
//      +--|-------------------------------------------------+ |  v
//         |  unlock()                                         |  waiting --> queued, or holds
//         +---------------------------------------------------+          notify_all()
//
// It is not a std::mutex, because its owner may block in the vocabulary with it held, be stopped by
// a pause or be unwound, and because a deadlock report names the processes that want it.
//
// Pauses: lock() is a safepoint before the lock is taken. The function of a pause must not wait,
// as the holder of the monitor would be stopped: there lock() takes a free monitor at once and
// throws a CheckFailure that names the holder of any other.
//
// Abort: when wait() throws it may have given the lock back. The unlock() of the caller's guard
// that follows is then harmless.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "cluster/realtime/world.hpp"

namespace hetsgd::realtime {

class ThreadsMonitor final : public Monitor {
 public:
  explicit ThreadsMonitor(World& world) : world_(world) {}

  // Errors: check, the calling process holds it already. Waiting is `wait` in its breakdown, here
  // and in wait().
  void lock() override;
  void unlock() override;
  // ready() is called by the waiting process itself, with the monitor held and without the world's
  // mutex: a slow one holds up those who want the monitor, nobody else. It is called again after
  // each notify_all().
  void wait(const std::function<bool()>& ready, std::string_view what) override;
  // With or without the monitor held, from any process of the run.
  void notify_all() override;

 private:
  // Remembers the notification. The wake-up alone would not do: the end of a pause wakes everybody,
  // too.
  struct Waiter {
    Process* process = nullptr;
    bool notified = false;
  };
  // Both under the world's mutex, which also guards the members below.
  void acquire(World::Lock& guard);
  void release();

  World& world_;
  Process* holder_ = nullptr;     // null: it is free
  std::vector<Process*> queue_;   // for the lock
  std::vector<Waiter*> waiters_;  // for a notification; each on its process's stack
};

}  // namespace hetsgd::realtime
