#include "cluster/threads/monitor.hpp"

#include "cluster/blocking.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

namespace {

// An element of a vector for as long as a wait lasts, however it ends. The mutex is held at both
// ends.
template <class T>
class Enlisted {
 public:
  Enlisted(std::vector<T*>& list, T& element) : list_(list), element_(&element) {
    list_.push_back(element_);
  }
  ~Enlisted() { std::erase(list_, element_); }
  Enlisted(const Enlisted&) = delete;
  Enlisted& operator=(const Enlisted&) = delete;

 private:
  std::vector<T*>& list_;
  T* element_;
};

}  // namespace

void ThreadsMonitor::lock() {
  Process& me = World::current();
  if (me.in_fence) {
    const auto guard = world_.lock();
    if (holder_) {
      throw CheckFailure(me.name + " locks a monitor inside of a fence, but " + holder_->name +
                         " holds it");
    }
    holder_ = &me;
    return;
  }
  auto guard = world_.enter();
  acquire(guard);
}

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

void ThreadsMonitor::unlock() {
  const auto guard = world_.lock();
  if (holder_ != &World::current()) {
    HETSGD_CHECK(world_.aborting());
    return;
  }
  release();
}

void ThreadsMonitor::release() {
  holder_ = nullptr;
  for (Process* process : queue_) world_.wake(*process);
}

void ThreadsMonitor::wait(const std::function<bool()>& ready, std::string_view what) {
  Process& me = World::current();
  while (!ready()) {
    auto guard = world_.enter();
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

void ThreadsMonitor::notify_all() {
  const auto guard = world_.lock();
  for (Waiter* waiter : waiters_) {
    waiter->notified = true;
    world_.wake(*waiter->process);
  }
}

}  // namespace hetsgd::threads
