#include "cluster/threads/comm.hpp"

#include <algorithm>

#include "cluster/blocking.hpp"
#include "cluster/realtime/host_memory.hpp"
#include "cluster/realtime/waiting.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::threads {

namespace {

// Up to here a copy under the mutex is cheaper than giving the mutex up and taking it again.
constexpr std::size_t kSmallMessage = 1024;

// Null: all buffers go through host memory, which every rank reaches. One rank without a GPU is
// reason enough, as then not all buffers of a collective can lie on GPUs.
std::unique_ptr<cuda::GpuGroup> make_between_gpus(const std::vector<int>& gpus,
                                                  AllReduce all_reduce) {
  const bool everywhere = std::ranges::none_of(gpus, [](int gpu) { return gpu < 0; });
  if (!everywhere || gpus.size() < 2 || gpus.size() > cuda::kMostRanks) return nullptr;
  if (all_reduce == AllReduce::host) return nullptr;
  return cuda::make_gpu_group(gpus, {.method = all_reduce});
}

}  // namespace

Group::Group(World& the_world, MessagePool& the_pool, HelperStarter& its_helpers,
             std::vector<int> its_gpus, AllReduce its_all_reduce)
    : world(the_world),
      pool(the_pool),
      helpers(its_helpers),
      size(static_cast<int>(its_gpus.size())),
      gpus(std::move(its_gpus)),
      all_reduce(its_all_reduce),
      between_gpus(make_between_gpus(gpus, all_reduce)),
      mailboxes(gpus.size()),
      sendrecvs(gpus.size()),
      passed(mailboxes.size()),
      inside(mailboxes.size()) {
  const std::size_t p = mailboxes.size();
  for (auto& round : rounds) {
    round.in.resize(p);
    round.out.resize(p);
    round.processes.resize(p);
  }
}

// The twin refers to the world and the pool, not to this group: a cycle of owners would free
// neither.
const std::shared_ptr<Group>& Group::twin() {
  const auto lock = world.lock();
  if (!twin_) twin_ = std::make_shared<Group>(world, pool, helpers, gpus, all_reduce);
  return twin_;
}

// The helper is made for the first call: most communicators never start one. It gets a ThreadsComm
// of its own, on the twin, so that this one stays free for blocking calls.
std::unique_ptr<PendingCall> ThreadsComm::start_raw(const CollectiveRequest& request) {
  if (!started_) {
    started_ = std::make_unique<StartedCalls>(group_->world, group_->helpers,
                                              std::make_shared<ThreadsComm>(group_->twin(), rank_));
  }
  return started_->start(request);
}

void ThreadsComm::count(Traffic kind, std::size_t sent, std::size_t received) {
  World::current().breakdown.count(kind, sent, received);
}

bool ThreadsComm::poll(int from, int tag) {
  const auto lock = group_->world.enter();
  return group_->mailboxes[at(rank_)].find(from, tag) != nullptr;
}

// Sends straight into a receive that waits, else by way of a message of the pool. The message
// belongs to this process while it is filled, so the mutex is given up for it; no sender waits for
// a receiver, and so a send is never a blocking point of a deadlock.
void ThreadsComm::send_raw(int to, int tag, std::span<const std::byte> data, Traffic kind, bool) {
  check_rank(to, size());
  HETSGD_CHECK_GE(tag, 0);
  World& world = group_->world;
  const HostMemory source(data.data(), data.size());
  data = {source.data(), data.size()};
  auto lock = begin_communication(world);
  count(kind, data.size(), 0);
  if (!deliver(lock, to, tag, data, kind)) {
    auto message = group_->pool.take(data.size());
    const bool small = data.size() <= kSmallMessage;
    if (!small) lock.unlock();
    const Seconds begin = small ? Seconds(0) : world.now();
    if (!message) message = MessagePool::make(data.size());
    message->source = rank_;
    message->tag = tag;
    message->bytes = data.size();
    message->kind = kind;
    copy_bytes(message->data.get(), data.data(), data.size());
    if (!small) {
      World::current().spend(&TimeBreakdown::communicate, world.now() - begin);
      lock = world.lock();
    }
    // The mutex was taken by lock(), not enter(): what has been copied is delivered, abort or not.
    // A receive that was posted during the copy finds the message when it is woken.
    Mailbox& mailbox = group_->mailboxes[at(to)];
    mailbox.push(std::move(message));
    mailbox.wake_receivers(world, rank_, tag);
  }
  lock.unlock();
  world.safepoint();
}

// Copies straight into a receive that waits. False: there is none. While the state is `filling` the
// receiver cannot leave, so its memory, and the PostedReceive on its stack, stay good without the
// mutex. After `done` and the release of the mutex both may be gone.
bool ThreadsComm::deliver(World::Lock& lock, int to, int tag, std::span<const std::byte> data,
                          Traffic kind) {
  World& world = group_->world;
  PostedReceive* receive = group_->mailboxes[at(to)].open_receive(rank_, tag, data.size());
  if (!receive) return false;
  receive->state = PostedReceive::State::filling;
  receive->source = rank_;
  receive->kind = kind;
  receive->filled_from = world.now();
  const bool small = data.size() <= kSmallMessage;
  if (!small) lock.unlock();
  copy_bytes(receive->data.data(), data.data(), data.size());
  if (!small) {
    World::current().spend(&TimeBreakdown::communicate, world.now() - receive->filled_from);
    lock = world.lock();
  }
  receive->state = PostedReceive::State::done;
  world.wake(*receive->process);
  return true;
}

// The look into the mailbox and the posting of the receive are one critical section, so that no
// message can come between the two unseen.
Envelope ThreadsComm::receive_raw(int from, int tag, std::span<std::byte> data) {
  if (from != kAnySource) check_rank(from, size());
  HETSGD_CHECK_GE(tag, 0);
  World& world = group_->world;
  HostMemory target(HostMemory::Use::write, data.data(), data.size());
  data = {target.data(), data.size()};
  auto lock = begin_communication(world);
  const bool here = group_->mailboxes[at(rank_)].find(from, tag) != nullptr;
  const Envelope envelope =
      here ? take_message(lock, from, tag, data) : wait_for_message(lock, from, tag, data);
  if (lock.owns_lock()) lock.unlock();
  target.store();
  world.safepoint();
  return envelope;
}

// The message is there, and the mutex held since it was found: another process of this rank cannot
// take it in between. Once popped it belongs to this process, which gives its buffer to the pool.
Envelope ThreadsComm::take_message(World::Lock& lock, int from, int tag,
                                   std::span<std::byte> data) {
  World& world = group_->world;
  auto message = group_->mailboxes[at(rank_)].pop(from, tag);
  if (message->bytes != data.size()) {
    throw CheckFailure(
        fmt::format("rank {} receives {} bytes with tag {} from rank {}, which sent {} bytes",
                    rank_, data.size(), tag, message->source, message->bytes));
  }
  count(message->kind, 0, message->bytes);
  const Envelope envelope{message->source, message->bytes};
  const bool small = data.size() <= kSmallMessage;
  if (!small) lock.unlock();
  const Seconds begin = small ? Seconds(0) : world.now();
  copy_bytes(data.data(), message->data.get(), data.size());
  if (!small) {
    World::current().spend(&TimeBreakdown::communicate, world.now() - begin);
    lock = world.lock();
  }
  group_->pool.give(std::move(message));
  return envelope;
}

// Ends in one of two ways: a sender has filled the receive (done), or a message has come by way of
// the mailbox and is taken from there. Such a message had another size, another message before it,
// or was being copied when the receive was posted. The time until the copy began is `wait`, the
// rest `communicate`.
Envelope ThreadsComm::wait_for_message(World::Lock& lock, int from, int tag,
                                       std::span<std::byte> data) {
  World& world = group_->world;
  Mailbox& mailbox = group_->mailboxes[at(rank_)];
  Process& me = World::current();
  PostedReceive receive{.from = from, .tag = tag, .data = data, .process = &me};

  using State = PostedReceive::State;
  const Until for_message(
      [&] {
        return receive.state == State::done ||
               (receive.state == State::open && mailbox.find(from, tag) != nullptr);
      },
      [&] { return blocked_in_receive(from, tag); },
      [&] { return receive.state != State::filling; });
  const Seconds since = world.now();
  {
    const Enlisted posted(mailbox.posted, receive);
    world.block(lock, for_message, nullptr);
  }
  if (receive.state != State::done) {
    me.spend(&TimeBreakdown::wait, world.now() - since);
    return take_message(lock, from, tag, data);
  }
  me.spend(&TimeBreakdown::wait, receive.filled_from - since);
  me.spend(&TimeBreakdown::communicate, world.now() - receive.filled_from);
  count(receive.kind, 0, data.size());
  return {receive.source, data.size()};
}

}  // namespace hetsgd::threads
