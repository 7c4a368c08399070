#include "cluster/threads/exchange.hpp"

#include "cluster/blocking.hpp"
#include "cluster/collective_call.hpp"
#include "cluster/threads/comm.hpp"
#include "cluster/threads/host_memory.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

namespace {

// Up to here (bytes each way) the second to come copies for both, under the mutex.
constexpr std::size_t kSmallExchange = 1024;

void check_lengths(const PostedExchange& mine, const PostedExchange& other) {
  check_same_exchange(mine.rank, {mine.out.size(), mine.in.size()}, mine.tag, other.rank,
                      {other.out.size(), other.in.size()});
}

class ForPartner final : public Wait {
 public:
  explicit ForPartner(const PostedExchange& mine) : mine_(mine) {}
  bool ready() const override { return mine_.partner != nullptr; }
  bool interruptible() const override { return !ready(); }  // from then on the partner reads `out`
  std::string describe() const override { return blocked_in_exchange(mine_.peer, mine_.tag); }

 private:
  const PostedExchange& mine_;
};

class ForRelease final : public Wait {
 public:
  explicit ForRelease(const PostedExchange& mine) : mine_(mine) {}
  bool ready() const override { return mine_.released; }
  bool interruptible() const override { return false; }
  std::string describe() const override { return blocked_in_exchange(mine_.peer, mine_.tag); }

 private:
  const PostedExchange& mine_;
};

}  // namespace

PostedExchange* Exchanges::find(int peer, int tag) const {
  for (PostedExchange* posted : posted_) {
    if (posted->peer == peer && posted->tag == tag && !posted->partner) return posted;
  }
  return nullptr;
}

void ThreadsComm::exchange_bytes(int peer, int tag, std::span<const std::byte> out,
                                 std::span<std::byte> in, Traffic kind) {
  HETSGD_CHECK_GE(peer, 0);
  HETSGD_CHECK_LT(peer, size());
  HETSGD_CHECK(peer != rank_);
  HETSGD_CHECK_GE(tag, 0);
  World& world = group_->world;
  PostedExchange mine{.rank = rank_, .peer = peer, .tag = tag, .kind = kind};
  mine.process = &World::current();
  mine.on_device = group_->between_gpus && (is_device_memory(out.data(), out.size()) ||
                                            is_device_memory(in.data(), in.size()));
  if (mine.on_device)
    mine.process->device->synchronize();  // the partner reads what it still writes
  const HostMemory source(out.data(), mine.on_device ? 0 : out.size());
  HostMemory target(HostMemory::Use::write, in.data(), mine.on_device ? 0 : in.size());
  mine.out = {source.data(), out.size()};
  mine.in = {target.data(), in.size()};
  World::Lock lock = world.enter();
  if (PostedExchange* const other =
          group_->exchanges[static_cast<std::size_t>(peer)].find(rank_, tag)) {
    check_lengths(mine, *other);
    HETSGD_CHECK(mine.on_device == other->on_device);
    mine.partner = other;
    other->partner = &mine;
    if (!mine.on_device && mine.out.size() + mine.in.size() <= 2 * kSmallExchange) {
      copy_bytes(mine.in.data(), other->out.data(), mine.in.size());
      copy_bytes(other->in.data(), mine.out.data(), other->in.size());
      mine.filled = mine.released = other->filled = other->released = true;
    }
    world.wake(*other->process);
  } else {
    Exchanges& posted = group_->exchanges[static_cast<std::size_t>(rank_)];
    struct Posted {  // withdrawn however the wait ends; the mutex is held then
      Exchanges& exchanges;
      PostedExchange& exchange;
      Posted(Exchanges& list, PostedExchange& one) : exchanges(list), exchange(one) {
        exchanges.post(exchange);
      }
      ~Posted() { exchanges.withdraw(exchange); }
    } const guard(posted, mine);
    world.block(lock, ForPartner(mine));
  }
  finish_exchange(lock, mine, kind);
  lock.unlock();
  target.store();
  world.safepoint();
}

void ThreadsComm::finish_exchange(World::Lock& lock, PostedExchange& mine, Traffic kind) {
  World& world = group_->world;
  count(kind, mine.out.size(), mine.in.size());
  if (mine.filled) return;
  PostedExchange& other = *mine.partner;
  lock.unlock();
  const Seconds begin = world.now();
  if (mine.on_device) {
    World::current().ledger.count(GpuPath::peers);
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
  other.released = true;  // from here on `other` may be gone
  Process& partner = *other.process;
  world.wake(partner);
  world.block(lock, ForRelease(mine), nullptr);
  World::current().ledger.communicate += world.now() - begin;
}

}  // namespace hetsgd::threads
