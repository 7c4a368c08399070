// SimMonitor: lock and condition between simulated processes. First come, first served.
//
// A process is, as this monitor sees it,
//
//              lock()                     the owner unlocks or waits: the first one gets it
//   outside ------------> owner    or    locking_ ----------------------------------------> owner
//      ^                  |   |             ^
//      |     unlock()     |   | wait()      | notify_all(); then ready() is asked again,
//      +------------------+   +-> waiting_ -+ and the process may come back to waiting_
//
// Only one process runs at a time, so nothing here is atomic: the lock is needed because a process
// may block, and others run, while it holds the monitor. An uncontended lock() takes no virtual
// time and causes no event. The owner hands the lock over; it is never free in between, so nobody
// overtakes those that wait. The order is that of the calls and the same in every run.
//
// Waiting counts as `wait` in the breakdown of the process that waits.
//
// Not in a service's handler nor in a pause: no process runs there (Engine::current checks).
#pragma once

#include <deque>
#include <functional>
#include <string_view>
#include <vector>

#include "cluster/endpoint.hpp"
#include "cluster/sim/engine.hpp"

namespace hetsgd::sim {

class SimMonitor final : public Monitor {
 public:
  explicit SimMonitor(Engine& engine) : engine_(engine) {}

  void lock_raw() override;
  void unlock_raw() override;
  void wait_raw(const std::function<bool()>& ready, std::string_view what) override;
  void notify_all_raw() override;

 private:
  // Returns when `self`, the running process, is the owner.
  void acquire(Process& self);
  // The owner becomes the first of locking_, or null.
  void release();

  Engine& engine_;
  Process* owner_ = nullptr;       // perhaps woken and not running yet
  std::deque<Process*> locking_;   // blocked in lock; unlock hands the lock to the first
  std::vector<Process*> waiting_;  // blocked in wait
};

}  // namespace hetsgd::sim
