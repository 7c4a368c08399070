// Streams as queues of operations, worked off by whichever host thread waits.
#include <algorithm>
#include <chrono>
#include <random>

#include "emulation.hpp"

namespace hetsgd_emulation {

std::mutex mutex;
std::condition_variable changed;

namespace {

std::vector<std::weak_ptr<Queue>>& queues() {
  static auto* const all = new std::vector<std::weak_ptr<Queue>>;
  return *all;
}

// What this thread has open of the GPUs' memory; operations in a row keep it open.
thread_local Access* access = nullptr;

class KeepOpen {
 public:
  KeepOpen() {
    if (access == nullptr) access = &mine_;
  }
  ~KeepOpen() {
    if (access == &mine_) access = nullptr;
  }

 private:
  Access mine_;
};

void run(Lock& lock, const Operation& operation) {
  lock.unlock();
  // A host function may not touch device memory either.
  access->change(operation.kind == Kind::host ? 0 : operation.touches);
  if (operation.run) operation.run();
  lock.lock();
}

void finish_first(Queue& queue) {
  queue.operations.pop_front();
  ++queue.done;
  queue.busy = false;
}

// All members of a meeting stand first in their queues, which are not busy but for `mine`.
void run_meeting(Lock& lock, Queue& mine) {
  const std::shared_ptr<Meeting> meeting = mine.operations.front().meeting;
  for (const Point& member : meeting->members) member.queue->busy = true;
  const Operation operation = mine.operations.front();
  run(lock, operation);
  for (const Point& member : meeting->members) finish_first(*member.queue);
}

// `queue` is busy on behalf of the caller. What its first operation waits for; false: others' turn.
bool make_ready(Lock& lock, Queue& queue) {
  // Copies, since the queue may change hands of memory while the lock is given away.
  const std::vector<Point> after = queue.operations.front().after;
  for (const Point& point : after) {
    if (!advance(lock, *point.queue, point.count)) return false;
  }
  if (const std::shared_ptr<Later> awaits = queue.operations.front().awaits; awaits) {
    if (awaits->aborted) return true;
    const Point point = awaits->point;
    if (point.queue == nullptr || !advance(lock, *point.queue, point.count)) return false;
  }
  const std::shared_ptr<Meeting> meeting = queue.operations.front().meeting;
  if (meeting == nullptr || meeting->aborted) return true;
  if (meeting->members.size() < meeting->expected) return false;
  const std::vector<Point> members = meeting->members;
  for (const Point& member : members) {
    if (member.queue.get() != &queue && !advance(lock, *member.queue, member.count)) return false;
  }
  return std::none_of(members.begin(), members.end(), [&](const Point& member) {
    return member.queue.get() != &queue && member.queue->busy;
  });
}

// A few operations of any queues, in the random order.
void stir(Lock& lock) {
  auto& all = queues();
  std::erase_if(all, [](const auto& queue) { return queue.expired(); });
  for (std::uint64_t turns = random_below(4); turns > 0 && !all.empty(); --turns) {
    const std::shared_ptr<Queue> queue = all[random_below(all.size())].lock();
    if (queue && queue->done < queue->given) advance(lock, *queue, queue->done + 1);
  }
}

}  // namespace

std::uint64_t random_below(std::uint64_t bound) {
  static std::mt19937_64 engine(settings().seed);
  return engine() % bound;
}

std::shared_ptr<Queue> make_queue(int gpu) {
  auto queue = std::make_shared<Queue>();
  queue->gpu = gpu;
  const Lock lock(mutex);
  queues().push_back(queue);
  return queue;
}

void push(Lock& lock, Queue& queue, Operation operation) {
  if (queue.capture) {
    std::vector<Node>& nodes = queue.capture->nodes;
    nodes.push_back({std::move(operation), queue.tails});
    queue.tails = {nodes.size() - 1};
    return;
  }
  if (operation.meeting) {
    operation.meeting->members.push_back({queue.shared_from_this(), queue.given});
  }
  queue.operations.push_back(std::move(operation));
  ++queue.given;
  changed.notify_all();
  if (settings().order == Order::eager) advance(lock, queue, queue.given);
  if (settings().order == Order::random) stir(lock);
}

bool advance(Lock& lock, Queue& queue, std::uint64_t count) {
  const KeepOpen open;
  while (queue.done < count) {
    if (queue.busy || queue.operations.empty()) return false;
    queue.busy = true;  // also ends a search that comes back to where it is
    if (!make_ready(lock, queue)) {
      queue.busy = false;
      return false;
    }
    const std::shared_ptr<Meeting> meeting = queue.operations.front().meeting;
    if (meeting && !meeting->aborted) {
      run_meeting(lock, queue);
    } else {
      const Operation operation = queue.operations.front();
      if (!meeting) run(lock, operation);
      finish_first(queue);
    }
    changed.notify_all();
  }
  return true;
}

void wait_for(Lock& lock, Queue& queue, std::uint64_t count) {
  if (settings().order == Order::random) stir(lock);
  const std::shared_ptr<Queue> keep = queue.shared_from_this();
  while (!advance(lock, queue, count)) {
    const std::uint64_t before = queue.done;
    const auto patience = std::chrono::duration<double>(settings().hang_s);
    if (changed.wait_for(lock, patience) == std::cv_status::timeout && queue.done == before) {
      misuse(
          fmt::format("a host thread waits for GPU {}, whose stream has made no progress in {} s",
                      queue.gpu, settings().hang_s));
    }
  }
}

void wait_for_gpu(Lock& lock, int gpu) {
  std::vector<std::shared_ptr<Queue>> all;
  for (const auto& weak : queues()) {
    if (auto queue = weak.lock(); queue && queue->gpu == gpu) all.push_back(std::move(queue));
  }
  for (const auto& queue : all) wait_for(lock, *queue, queue->given);
}

}  // namespace hetsgd_emulation
