#include "cluster/threads/sendrecv.hpp"

#include <algorithm>

#include "cluster/blocking.hpp"
#include "cluster/realtime/host_memory.hpp"
#include "cluster/realtime/waiting.hpp"
#include "cluster/threads/comm.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::threads {

namespace {

// Up to here (bytes each way) the second to come copies for both, under the mutex.
constexpr std::size_t kSmallSendrecv = 1024;

// Made by the second to come, before the two are partners: it fails alone, and the first is unwound
// by the abort that follows.
void check_lengths(const PostedSendrecv& mine, const PostedSendrecv& other) {
  check_same_sendrecv(mine.rank, {mine.out.size(), mine.in.size()}, mine.tag, other.rank,
                      {other.out.size(), other.in.size()});
}

// The first with this peer and tag that has no partner yet; null: none. One that has a partner may
// still be in the list, since its process has not run since then.
PostedSendrecv* find(const PostedSendrecvs& list, int peer, int tag) {
  const auto found = std::ranges::find_if(list, [&](const PostedSendrecv* posted) {
    return posted->peer == peer && posted->tag == tag && !posted->partner;
  });
  return found == list.end() ? nullptr : *found;
}

}  // namespace

// One critical section pairs the two: the second to come finds the first in its rank's list, and
// needs no entry of its own. Between GPUs the device memory itself is read by the partner's device,
// hence the synchronize(); else both go through views on the host, which are made before the mutex
// is taken and stored after it was given up.
void ThreadsComm::sendrecv_raw(int peer, int tag, std::span<const std::byte> out,
                               std::span<std::byte> in, Traffic kind) {
  check_rank(peer, size());
  HETSGD_CHECK(peer != rank_);
  HETSGD_CHECK_GE(tag, 0);
  World& world = group_->world;
  PostedSendrecv mine{.rank = rank_, .peer = peer, .tag = tag, .kind = kind};
  mine.process = &World::current();
  mine.on_device = group_->between_gpus && (is_device_memory(out.data(), out.size()) ||
                                            is_device_memory(in.data(), in.size()));
  if (mine.on_device)
    mine.process->device->synchronize();  // the partner reads what it still writes
  const HostMemory source(out.data(), mine.on_device ? 0 : out.size());
  HostMemory target(HostMemory::Use::write, in.data(), mine.on_device ? 0 : in.size());
  mine.out = {source.data(), out.size()};
  mine.in = {target.data(), in.size()};
  World::Lock lock = begin_communication(world);
  if (PostedSendrecv* const other = find(group_->sendrecvs[at(peer)], rank_, tag)) {
    check_lengths(mine, *other);
    HETSGD_CHECK(mine.on_device == other->on_device);
    mine.partner = other;
    other->partner = &mine;
    if (!mine.on_device && mine.out.size() + mine.in.size() <= 2 * kSmallSendrecv) {
      copy_bytes(mine.in.data(), other->out.data(), mine.in.size());
      copy_bytes(other->in.data(), mine.out.data(), other->in.size());
      mine.filled = mine.released = other->filled = other->released = true;
    }
    world.wake(*other->process);
  } else {
    const Enlisted posted(group_->sendrecvs[at(rank_)], mine);
    // From the pairing on the partner reads `out`.
    world.block(lock, Until([&] { return mine.partner != nullptr; },
                            [&] { return blocked_in_sendrecv(peer, tag); },
                            [&] { return mine.partner == nullptr; }));
  }
  finish_sendrecv(lock, mine, kind);
  lock.unlock();
  target.store();
  world.safepoint();
}

// Both are here. Both copy at the same time, each what it gets: two cores, and on GPUs both
// directions of the link. `partner` needs no lock any more, as it is set once. A failed copy aborts
// the run, but the protocol goes on to its end, or the partner would wait for its release for ever.
void ThreadsComm::finish_sendrecv(World::Lock& lock, PostedSendrecv& mine, Traffic kind) {
  World& world = group_->world;
  count(kind, mine.out.size(), mine.in.size());
  if (mine.filled) return;
  PostedSendrecv& other = *mine.partner;
  lock.unlock();
  const Seconds begin = world.now();
  if (mine.on_device) {
    World::current().breakdown.count(GpuPath::peers);
    try {
      group_->between_gpus->fetch(rank_, mine.peer, other.out.data(), mine.in.data(),
                                  mine.in.size());
    } catch (...) {  // the partner is not kept waiting
      world.abort(std::current_exception());
    }
  } else {
    copy_bytes(mine.in.data(), other.out.data(), mine.in.size());
  }
  lock = world.lock();
  other.released = true;  // once the mutex is given up `other` may be gone
  Process& partner = *other.process;
  world.wake(partner);
  // The partner has begun to read `out`, or will: it does so even in an aborted run, as it cannot
  // be unwound between its pairing and its copy.
  const Until released([&] { return mine.released; },
                       [&] { return blocked_in_sendrecv(mine.peer, mine.tag); }, std::false_type());
  world.block(lock, released, nullptr);
  World::current().spend(&TimeBreakdown::communicate, world.now() - begin);
}

}  // namespace hetsgd::threads
