#include "cluster/realtime/monitor.hpp"

#include "cluster/blocking.hpp"
#include "core/error.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::realtime {

namespace {

// An element of a vector for as long as a wait lasts, however it ends. The mutex is held at both
// ends.
template <class T>
class Enlisted : NonCopyable {
 public:
  Enlisted(std::vector<T*>& list, T& element) : list_(list), element_(&element) {
    list_.push_back(element_);
  }
  ~Enlisted() { std::erase(list_, element_); }

 private:
  std::vector<T*>& list_;
  T* element_;
};

}  // namespace

// world_.enter() would refuse the function of a pause and park everybody else until the pause is
// over; so what runs in a pause takes the plain mutex.
void ThreadsMonitor::lock() {
  Process& me = World::current();
  if (me.in_pause) {  // it may not wait: who holds the monitor is stopped
    const auto guard = world_.lock();
    if (holder_) {
      throw CheckFailure(me.name + " locks a monitor inside of a pause, but " + holder_->name +
                         " holds it");
    }
    holder_ = &me;
    return;
  }
  auto guard = world_.enter();
  acquire(guard);
}

// World's mutex held, before and after. block() returns with ready() true under the mutex, so
// nobody can have taken the lock between the look and the assignment.
void ThreadsMonitor::acquire(World::Lock& guard) {
  Process& me = World::current();
  if (holder_ == &me) throw CheckFailure(me.name + " locks a monitor that it holds already");
  if (holder_) {
    const Enlisted queued(queue_, me);
    const Until free([&] { return holder_ == nullptr; }, [] { return blocked_on_lock(); });
    world_.block(guard, free);
  }
  holder_ = &me;
}

// Not a safepoint: it is called by destructors of guards, also while an exception passes through.
void ThreadsMonitor::unlock() {
  const auto guard = world_.lock();
  // wait() has thrown, and the guard of the caller unlocks what it no longer holds.
  if (holder_ != &World::current()) {
    HETSGD_CHECK(world_.aborting());
    return;
  }
  release();
}

// Everybody who wants the lock is woken, and the first that runs gets it; the others go back to
// sleep. Queues are short, and handing the lock to one of them would keep the rest waiting as long
// as that one is held back by a pause.
void ThreadsMonitor::release() {
  holder_ = nullptr;
  for (Process* process : queue_) world_.wake(*process);
}

// The lock is given back and the waiter is listed in one critical section: whoever makes ready()
// true needs the lock for it, so its notify_all() finds the waiter in the list.
void ThreadsMonitor::wait(const std::function<bool()>& ready, std::string_view what) {
  Process& me = World::current();
  while (!ready()) {
    // lock(), not enter(): who parks for a pause here would hold the monitor, which the function of
    // a pause may lock. block() sees an abort.
    auto guard = world_.lock();
    HETSGD_CHECK(holder_ == &me);
    release();
    Waiter waiter{&me};
    {
      const Enlisted waiting(waiters_, waiter);
      const Until notified([&] { return waiter.notified; },
                           [&] { return blocked_in_monitor(what); });
      world_.block(guard, notified);
    }
    acquire(guard);
  }
}

// Waiters stay in the list until they have run. A second notification is no harm.
void ThreadsMonitor::notify_all() {
  const auto guard = world_.lock();
  for (Waiter* waiter : waiters_) {
    waiter->notified = true;
    world_.wake(*waiter->process);
  }
}

}  // namespace hetsgd::realtime
