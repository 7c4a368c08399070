// Blocks of emulated threads. A thread that never waits for another costs no switch: one fiber runs
// thread after thread until one of them waits, and then stays with that one.
#include <algorithm>
#include <boost/context/fiber.hpp>
#include <cstring>
#include <deque>
#include <list>
#include <utility>

#include "block.hpp"
#include "cuda_kernel_language.h"
#include "emulation.hpp"

namespace hetsgd_emulation {

constinit thread_local Place* place = nullptr;

struct Gathering;
struct Fiber {
  boost::context::fiber context;
  Place place;
  Gathering* gathering = nullptr;  // where its thread is
};

namespace {

constexpr unsigned kLanes = 32;
constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr std::size_t kSharedAlignment = 1024;  // the most that any instruction asks for

}  // namespace

// Lanes that meet for one warp operation.
struct Gathering {
  unsigned mask = 0, arrived = 0, left = 0;
  LaneValue values[kLanes];
};

namespace {

thread_local std::list<Gathering> spare_gatherings;

class Block {
 public:
  // `blocks_before`: the number of blocks of the launch that ran before.
  Block(const Place& where, const Kernel& kernel, std::size_t shared_bytes,
        std::uint64_t blocks_before)
      : before(blocks_before),
        where_(where),
        kernel_(kernel),
        reversed_(blocks_before % 2 == 1),
        last_first_(((blocks_before ^ blocks_before >> 1 ^ blocks_before >> 2) & 1) != 0),
        threads_(where.block_size.x * where.block_size.y * where.block_size.z),
        warps_((threads_ + kLanes - 1) / kLanes),
        memory_(shared_bytes + kSharedAlignment, 0xFF) {
    void* begin = memory_.data();
    std::size_t room = memory_.size();
    std::align(kSharedAlignment, shared_bytes, begin, room);
    shared = {static_cast<unsigned char*>(begin), shared_bytes};
  }

  void run();
  void synchronize();
  const LaneValue* meet(unsigned mask, const LaneValue& mine);
  void leave();
  void wait_in(std::vector<Fiber*>& list) {
    list.push_back(running_);
    pause();
  }
  void wake(std::vector<Fiber*>& list) {
    ready_.insert(ready_.end(), list.begin(), list.end());
    list.clear();
  }
  unsigned threads() const { return threads_; }
  unsigned number_of_thread() const { return number_of(*place); }

  const std::uint64_t before;
  SharedMemory shared;
  std::unique_ptr<Units> units;

 private:
  struct Warp {
    std::list<Gathering> gatherings;
    unsigned ended = 0;
  };

  Place place_of(unsigned thread) const {
    Place place = where_;
    const dim3& size = where_.block_size;
    place.thread = {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
    return place;
  }
  static unsigned number_of(const Place& place) {
    const dim3& size = place.block_size;
    return place.thread.x + size.x * (place.thread.y + size.y * place.thread.z);
  }
  void start_fiber();
  void resume(Fiber& fiber) {
    running_ = &fiber;
    place = &fiber.place;
    fiber.context = std::move(fiber.context).resume();
  }
  void work(Fiber& fiber);
  // Returns to run(), until another fiber puts this one into `ready_`.
  void pause() {
    Fiber& me = *running_;
    main_ = std::move(main_).resume();
    running_ = &me;
    place = &me.place;
  }
  void open_barrier_if_complete() {
    if (!at_barrier_.empty() && at_barrier_.size() == threads_ - ended_) {
      ready_.insert(ready_.end(), at_barrier_.begin(), at_barrier_.end());
      at_barrier_.clear();
    }
  }
  void check_lanes_alive(const Warp& warp) const {
    for (const Gathering& gathering : warp.gatherings) {
      if ((gathering.mask & ~gathering.arrived & warp.ended) != 0) {
        misuse("a thread ended before a warp operation that names its lane");
      }
    }
  }

  const Place where_;
  const Kernel& kernel_;
  // Orders of threads: of their begin and of a warp's lanes, and of those that may go on.
  const bool reversed_, last_first_;
  const unsigned threads_;
  unsigned next_ = 0, ended_ = 0;
  boost::context::fiber main_;
  Fiber* running_ = nullptr;
  std::deque<Fiber> fibers_;
  std::vector<Fiber*> at_barrier_;
  std::deque<Fiber*> ready_;
  std::vector<Warp> warps_;
  std::vector<unsigned char> memory_;
  std::vector<Fiber*> waiting_lanes_ = std::vector<Fiber*>(threads_, nullptr);
};

thread_local Block* current_block = nullptr;

// Stacks are kept for the next block.
struct Stacks {
  char* at(std::size_t i) {
    while (all.size() <= i) all.push_back(std::make_unique<char[]>(kStackBytes));
    return all[i].get();
  }
  std::vector<std::unique_ptr<char[]>> all;
};
thread_local Stacks stacks;

struct StackOf {
  char* begin;
  boost::context::stack_context allocate() {
    boost::context::stack_context context;
    context.size = kStackBytes;
    context.sp = begin + kStackBytes;
    return context;
  }
  void deallocate(boost::context::stack_context&) {}
};

void Block::work(Fiber& fiber) {
  while (next_ < threads_) {
    const unsigned turn = next_++;
    const unsigned thread = reversed_ ? threads_ - 1 - turn : turn;
    fiber.place = place_of(thread);
    kernel_();
    if (units) units->end_thread(thread);
    ++ended_;
    Warp& warp = warps_[thread / kLanes];
    warp.ended |= 1U << thread % kLanes;
    check_lanes_alive(warp);
    open_barrier_if_complete();
  }
}

void Block::start_fiber() {
  Fiber& fiber = fibers_.emplace_back();
  fiber.context = boost::context::fiber(std::allocator_arg, StackOf{stacks.at(fibers_.size() - 1)},
                                        [this, &fiber](boost::context::fiber&& main) {
                                          main_ = std::move(main);
                                          work(fiber);
                                          return std::move(main_);
                                        });
  resume(fiber);
}

void Block::run() {
  current_block = this;
  while (ended_ < threads_) {
    if (next_ < threads_) {
      start_fiber();
    } else if (!ready_.empty()) {
      Fiber* const fiber = last_first_ ? ready_.back() : ready_.front();
      last_first_ ? ready_.pop_back() : ready_.pop_front();
      resume(*fiber);
    } else if (!units || !units->advance()) {
      misuse("threads of a block wait for ones that went another way");
    }
  }
  if (units) units->end_block();
  current_block = nullptr;
  place = nullptr;
}

void Block::synchronize() {
  at_barrier_.push_back(running_);
  open_barrier_if_complete();
  pause();
}

const LaneValue* Block::meet(unsigned mask, const LaneValue& mine) {
  const unsigned thread = number_of(*place), lane = thread % kLanes, bit = 1U << lane;
  if ((mask & bit) == 0) misuse("a warp operation without the lane that calls it");
  Warp& warp = warps_[thread / kLanes];
  auto& all = warp.gatherings;
  auto found = std::find_if(all.begin(), all.end(), [&](const Gathering& g) {
    return g.mask == mask && (g.arrived & bit) == 0;
  });
  if (found == all.end()) {
    if (spare_gatherings.empty()) spare_gatherings.emplace_back();
    all.splice(all.end(), spare_gatherings, spare_gatherings.begin());
    found = std::prev(all.end());
    found->mask = mask;
    found->arrived = found->left = 0;
  }
  Gathering& gathering = *found;
  running_->gathering = &gathering;
  std::memcpy(gathering.values[lane], mine, sizeof mine);
  gathering.arrived |= bit;
  if (warp.ended != 0) check_lanes_alive(warp);
  if (gathering.arrived != mask) {
    waiting_lanes_[thread] = running_;
    pause();
    return gathering.values;
  }
  for (unsigned i = 0; i < kLanes; ++i) {
    const unsigned other = reversed_ ? kLanes - 1 - i : i;
    if ((mask & ~bit & 1U << other) == 0) continue;
    ready_.push_back(waiting_lanes_[thread / kLanes * kLanes + other]);
  }
  return gathering.values;
}

void Block::leave() {
  Gathering& gathering = *std::exchange(running_->gathering, nullptr);
  const unsigned thread = number_of(*place);
  gathering.left |= 1U << thread % kLanes;
  auto& all = warps_[thread / kLanes].gatherings;
  while (!all.empty() && all.front().left == all.front().mask) {
    spare_gatherings.splice(spare_gatherings.end(), all, all.begin());
  }
}

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, const Kernel& kernel) {
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    Place where;
    const std::uint64_t at = blocks - 1 - i;  // the order of blocks is nobody's promise
    where.block = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                   static_cast<unsigned>(at / grid.x / grid.y)};
    where.block_size = block;
    where.grid_size = grid;
    Block(where, kernel, shared_bytes, i).run();
  }
}

}  // namespace

void synchronize_block() { current_block->synchronize(); }

const LaneValue* meet(unsigned mask, const LaneValue& mine) {
  return current_block->meet(mask, mine);
}
void leave() { current_block->leave(); }

void* dynamic_shared_memory() { return current_block->shared.begin; }

Units& units_of_block(std::unique_ptr<Units> (*make)()) {
  if (!current_block->units) current_block->units = make();
  return *current_block->units;
}
unsigned number_of_thread() { return current_block->number_of_thread(); }
unsigned threads_of_block() { return current_block->threads(); }
std::uint64_t blocks_before() { return current_block->before; }
SharedMemory shared_memory() { return current_block->shared; }
void wait_in(std::vector<Fiber*>& list) { current_block->wait_in(list); }
void wake(std::vector<Fiber*>& list) { current_block->wake(list); }

namespace {
// The most dynamic shared memory that a kernel was allowed. A GPU keeps one for each kernel.
std::atomic<std::size_t> allowed_shared_bytes{kSharedBytesOfAll};
}  // namespace

cudaError_t allow_shared_memory(std::size_t bytes) {
  if (bytes > kMostSharedBytes) return report(cudaErrorInvalidValue);
  std::size_t before = allowed_shared_bytes;
  while (before < bytes && !allowed_shared_bytes.compare_exchange_weak(before, bytes)) {
  }
  return cudaSuccess;
}

void launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, Kernel kernel) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (std::uint64_t{grid.x} * grid.y * grid.z == 0 || threads == 0 || threads > 1024 ||
      shared_bytes > allowed_shared_bytes) {
    report(cudaErrorInvalidValue);
    return;
  }
  std::shared_ptr<Queue> queue;
  if (checked_stream(stream, queue) != cudaSuccess) return;
  if (queue->gpu != current_gpu()) {
    report(cudaErrorInvalidResourceHandle);
    return;
  }
  Lock lock(mutex);
  push(lock, *queue, {.touches = reachable(queue->gpu), .run = [=, kernel = std::move(kernel)] {
                        run_grid(grid, block, shared_bytes, kernel);
                      }});
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> run) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  Lock lock(mutex);
  push(lock, *queue, {.touches = reachable(queue->gpu), .run = std::move(run)});
  return cudaSuccess;
}

}  // namespace hetsgd_emulation
