#include "cluster/realtime/started_calls.hpp"

#include <deque>

#include "cluster/blocking.hpp"
#include "cluster/realtime/waiting.hpp"

namespace hetsgd::realtime {

// State that the communicator, its calls and the helper share; the last of them frees it. Guarded
// by the world's mutex.
struct StartedCalls::Queue {
  explicit Queue(World& its_world) : world(its_world) {}

  World& world;
  std::deque<Call*> open;     // the first is being made
  Process* helper = nullptr;  // touches no call any more when it has ended
  bool closed = false;        // nothing more is started
};

// A call lives until it is complete or the helper has ended, although the queue does not own it:
// settle() waits for that. `complete` and `caller` are guarded by the world's mutex; `time` is
// written by the helper before `complete`, and read after it.
class StartedCalls::Call final : public PendingCall {
 public:
  Call(std::shared_ptr<Queue> queue, const CollectiveRequest& what)
      : request(what), queue_(std::move(queue)) {}

  // If the run is aborted this throws Unwind, and the Pending's destructor settles: the call's
  // memory may still be in use.
  CallTime wait() override {
    World& world = queue_->world;
    auto lock = world.enter();
    caller = &World::current();
    world.block(lock, Until([&] { return complete; }, [&] { return describe(); }));
    lock.unlock();
    world.safepoint();
    return time;
  }

  // Not interruptible, as the helper reads and writes the call's memory until one of the two has
  // happened. It cannot wait for ever: with `failing` the run is aborted here, and the helper is
  // unwound as soon as its own peers let go of that memory.
  void settle(bool failing) noexcept override {
    World& world = queue_->world;
    auto lock = world.lock();
    if (complete) return;
    if (failing) world.fail_with_what_unwinds();
    caller = &World::current();
    world.block(lock, Until([&] { return complete || queue_->helper->ended; },
                            [&] { return describe(); }, std::false_type()));
  }

  const CollectiveRequest request;
  Process* caller = nullptr;  // waits
  bool complete = false;
  CallTime time;

 private:
  std::string describe() const {
    return blocked_in_started(collective_name(request.call.collective));
  }

  const std::shared_ptr<Queue> queue_;
};

StartedCalls::StartedCalls(World& world, HelperStarter& helpers, std::shared_ptr<Comm> twin)
    : queue_(std::make_shared<Queue>(world)) {
  queue_->helper = &helpers.start_helper(
      World::current(), "started calls",
      [queue = queue_, twin = std::move(twin)](Endpoint&) { make_all(*queue, *twin); },
      ProcessKind::started_calls);
}

// Does not wait: an endpoint ends with its communicator, and calls whose Pending lives on are still
// made.
StartedCalls::~StartedCalls() {
  const auto lock = queue_->world.lock();
  queue_->closed = true;
  queue_->world.wake(*queue_->helper);
}

std::unique_ptr<PendingCall> StartedCalls::start(const CollectiveRequest& request) {
  World& world = queue_->world;
  // The helper has a device of its own, whose work is in no order with this one's.
  World::current().device->synchronize();
  auto call = std::make_unique<Call>(queue_, request);
  // enter() may throw. So the call joins the queue last, when nothing can destroy it any more but
  // its Pending.
  {
    const auto lock = begin_communication(world);
    queue_->open.push_back(call.get());
    world.wake(*queue_->helper);
  }
  return call;
}

// Goes on until the communicator is gone (closed) or only services are left (finishing), and
// everything that was started has been made. A call stays in the queue while it is made: if it
// throws, it is left behind there with those after it, and nobody looks at them again.
void StartedCalls::make_all(Queue& queue, Comm& twin) {
  World& world = queue.world;
  auto lock = world.enter();
  const Until next([&] { return !queue.open.empty() || queue.closed || world.finishing(); },
                   [] { return kServiceIdle; });
  while (true) {
    world.block(lock, next);
    if (queue.open.empty()) return;
    Call& call = *queue.open.front();
    lock.unlock();
    call.time.begin = world.now();
    twin.make(call.request);
    call.time.end = world.now();
    lock = world.lock();
    queue.open.pop_front();
    call.complete = true;
    if (call.caller) world.wake(*call.caller);
  }
}

}  // namespace hetsgd::realtime
