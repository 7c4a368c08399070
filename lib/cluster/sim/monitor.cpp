#include "cluster/sim/monitor.hpp"

#include "core/error.hpp"

namespace hetsgd::sim {

// After block() the process is the owner already: release() has made it so.
void SimMonitor::acquire(Process& self) {
  if (owner_ == nullptr) {
    owner_ = &self;
    return;
  }
  locking_.push_back(&self);
  engine_.block([] { return blocked_on_lock(); });
}

void SimMonitor::release() {
  owner_ = nullptr;
  while (!locking_.empty() && locking_.front()->is_lost()) locking_.pop_front();
  if (locking_.empty()) return;
  owner_ = locking_.front();
  locking_.pop_front();
  engine_.wake(*owner_);
}

// While a run is torn down nobody else runs, and locks are taken and given back by destructors,
// which must not throw: then both do nothing.
void SimMonitor::lock_raw() {
  Process& self = engine_.current("Monitor::lock");
  if (engine_.tearing_down()) return;
  HETSGD_CHECK(owner_ != &self);  // not recursive
  const double called = engine_.now();
  acquire(self);
  self.breakdown->wait += Seconds(engine_.now() - called);
}

void SimMonitor::unlock_raw() {
  if (engine_.tearing_down()) return;
  HETSGD_CHECK(owner_ == &engine_.current("Monitor::unlock"));
  release();
}

// The waiter enters the list before the lock is given up, so a notification that follows is not
// lost. When the run is torn down, block() throws, or, in a destructor, returns; then wait() does
// too, although ready() may be false. The caller of notify_all() need not hold the lock.
void SimMonitor::wait_raw(const std::function<bool()>& ready, std::string_view what) {
  Process& self = engine_.current("Monitor::wait");
  HETSGD_CHECK(owner_ == &self || engine_.tearing_down());
  const double called = engine_.now();
  while (!engine_.tearing_down() && !ready()) {
    waiting_.push_back(&self);
    release();
    engine_.block([what] { return blocked_in_monitor(what); });
    acquire(self);
  }
  self.breakdown->wait += Seconds(engine_.now() - called);
}

// All of them, as they may wait for different conditions; each asks its own under the lock.
void SimMonitor::notify_all_raw() {
  for (Process* process : waiting_) engine_.wake(*process);
  waiting_.clear();
}

}  // namespace hetsgd::sim
