// Streams as queues of operations, worked off by whichever host thread waits.
#include <algorithm>
#include <chrono>
#include <random>

#include "emulation.hpp"

namespace hetsgd_emulation {

std::mutex mutex;
std::condition_variable changed;
std::atomic<int> waits_for_processes = 0;

namespace {

std::vector<std::weak_ptr<Queue>>& queues() {
  static auto* const all = new std::vector<std::weak_ptr<Queue>>;
  return *all;
}

std::uint64_t finished = 0;  // operations, of all queues

// This thread's open access to the GPUs' memory; consecutive operations keep it open.
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
  access->change(operation.touches);
  if (operation.run) operation.run();
  lock.lock();
}

void finish_first(Queue& queue) {
  queue.operations.pop_front();
  ++queue.done;
  ++finished;
  queue.busy = false;
}

// `queue` is busy on behalf of the caller. Runs the operations that its first one waits for; false:
// other queues must run first.
bool make_ready(Lock& lock, Queue& queue) {
  // Copies, since the queue may change hands of memory while the lock is given away.
  const std::vector<Point> after = queue.operations.front().after;
  for (const Point& point : after) {
    if (!advance(lock, *point.queue, point.count)) return false;
  }
  const auto ready = queue.operations.front().ready;
  return !ready || ready(lock);
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
    const Operation operation = queue.operations.front();
    run(lock, operation);
    finish_first(queue);
    changed.notify_all();
  }
  return true;
}

void wait_for(Lock& lock, Queue& queue, std::uint64_t count) {
  if (settings().order == Order::random) stir(lock);
  const std::shared_ptr<Queue> keep = queue.shared_from_this();
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> patience(settings().hang_s);
  auto since = Clock::now();
  for (std::uint64_t before = finished; !advance(lock, queue, count);) {
    if (finished != before) {
      before = finished;
      since = Clock::now();
    } else if (Clock::now() - since > patience) {
      misuse(
          fmt::format("a host thread waits for GPU {}, whose stream has made no progress in {} s",
                      queue.gpu, settings().hang_s));
    }
    const std::chrono::duration<double> look_again(100e-6);
    changed.wait_for(lock, waits_for_processes > 0 ? look_again : patience);
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
