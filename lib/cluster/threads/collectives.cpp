// The collectives of ThreadsComm.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

#include "cluster/blocking.hpp"
#include "cluster/reduce.hpp"
#include "cluster/threads/comm.hpp"
#include "cluster/threads/host_memory.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

namespace {

// Up to here (bytes of all ranks together) the last rank to arrive moves everything, which saves
// the second meeting.
constexpr std::size_t kSmallCollective = 32 * 1024;

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// The slice that `rank` reduces in an all_reduce: whole cache lines, so that no two ranks write to
// one.
Comm::Block slice_of(int rank, int size, std::size_t count, Element element) {
  const std::size_t per_line = 64 / element_bytes(element);
  const std::size_t lines = (count + per_line - 1) / per_line;
  const auto begin_of = [&](int r) {
    return std::min(
        count, lines * static_cast<std::size_t>(r) / static_cast<std::size_t>(size) * per_line);
  };
  return {begin_of(rank), begin_of(rank + 1)};
}

// What a rank brings to a split, and what it gets.
struct Choice {
  int colour = 0;
  int key = 0;
};
struct Place {
  std::shared_ptr<Group> group;  // null: joins none
  int rank = 0;
};

void make_groups(const Group& group, const Round& round) {
  const auto choice = [&](int r) {
    return *static_cast<const Choice*>(round.in[static_cast<std::size_t>(r)]);
  };
  std::vector<int> order(static_cast<std::size_t>(group.size));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {},
                    [&](int r) { return std::tuple(choice(r).colour, choice(r).key, r); });
  for (auto begin = order.begin(); begin != order.end();) {
    const int colour = choice(*begin).colour;
    const auto end =
        std::find_if(begin, order.end(), [&](int r) { return choice(r).colour != colour; });
    std::shared_ptr<Group> members;
    if (colour >= 0)
      members = std::make_shared<Group>(group.world, group.pool, static_cast<int>(end - begin));
    for (auto member = begin; member != end; ++member) {
      *static_cast<Place*>(round.out[static_cast<std::size_t>(*member)]) = {
          members, static_cast<int>(member - begin)};
    }
    begin = end;
  }
}

}  // namespace

// One rank's way through one collective: the constructor returns when all ranks are here, with the
// mutex held. The last one to arrive calls on_last(round) before anybody goes on.
class ThreadsComm::Passage {
 public:
  template <class OnLast>
  Passage(ThreadsComm& comm, const CollectiveCall& call, const void* in, void* out, OnLast on_last)
      : comm_(comm), lock_(comm.group_->world.enter()), round_(join(call)) {
    const auto me = static_cast<std::size_t>(comm.rank_);
    round_.in[me] = in;
    round_.out[me] = out;
    round_.processes[me] = &World::current();
    if (++round_.arrived == comm.size()) {
      on_last(round_);
      wake_others();
      return;
    }
    class ForAll final : public Wait {
     public:
      ForAll(const Round& round, int size) : round_(round), size_(size) {}
      bool ready() const override { return round_.arrived == size_; }
      // Once all are here the others count on this rank: it does its part even if the run is
      // aborted.
      bool interruptible() const override { return !ready(); }
      std::string describe() const override {
        return blocked_in_collective(collective_name(round_.call.collective), round_.arrived,
                                     size_);
      }

     private:
      const Round& round_;
      int size_;
    };
    comm.group_->world.block(lock_, ForAll(round_, comm.size()));
  }

  Round& round() { return round_; }
  World::Lock& lock() { return lock_; }

  // wait_for_all: returns when all have left, because others may still use this rank's buffers.
  void leave(bool wait_for_all) {
    Group& group = *comm_.group_;
    const auto me = static_cast<std::size_t>(comm_.rank_);
    if (!lock_.owns_lock()) lock_ = group.world.lock();
    if (++round_.departed == group.size) {
      wake_others();
    } else if (wait_for_all) {
      class ForDepartures final : public Wait {
       public:
        ForDepartures(const Round& round, int size) : round_(round), size_(size) {}
        bool ready() const override { return round_.departed == size_; }
        bool interruptible() const override { return false; }
        std::string describe() const override {
          return blocked_in_collective(collective_name(round_.call.collective), size_, size_);
        }

       private:
        const Round& round_;
        int size_;
      };
      group.world.block(lock_, ForDepartures(round_, group.size), nullptr);
    }
    group.inside[me] = 0;
    ++group.passed[me];
  }

 private:
  Round& join(const CollectiveCall& call) {
    Group& group = *comm_.group_;
    const int rank = comm_.rank_;
    const auto me = static_cast<std::size_t>(rank);
    if (group.inside[me]) {
      throw CheckFailure(
          fmt::format("two processes of rank {} are in a collective of one group at once", rank));
    }
    const std::uint64_t number = group.passed[me] + 1;
    Round& round = group.rounds[number % 2];
    if (round.number != number) {
      round.number = number;
      round.arrived = 0;
      round.departed = 0;
      round.first = rank;
      round.call = call;
    } else {
      check_same_call(round.first, round.call, rank, call);
    }
    group.inside[me] = 1;
    return round;
  }

  void wake_others() {
    Group& group = *comm_.group_;
    for (std::size_t r = 0; r < round_.processes.size(); ++r) {
      if (group.inside[r]) group.world.wake(*round_.processes[r]);
    }
  }

  ThreadsComm& comm_;
  World::Lock lock_;
  Round& round_;
};

// move(round, rank) moves rank's share of the data. others_need_me: they use my buffers until all
// have left.
template <class Move>
void ThreadsComm::collective(const CollectiveCall& call, const void* in, void* out,
                             std::size_t total_bytes, bool others_need_me, Move move) {
  World& world = group_->world;
  const bool small = total_bytes <= kSmallCollective;
  {
    Passage passage(*this, call, in, out, [&](Round& round) {
      for (int r = 0; small && r < size(); ++r) move(round, r);
    });
    if (small) {
      passage.leave(false);
    } else {
      passage.lock().unlock();
      const Seconds begin = world.now();
      move(passage.round(), rank_);
      passage.leave(others_need_me);
      World::current().ledger.communicate += world.now() - begin;
    }
  }
  world.safepoint();
}

void ThreadsComm::all_reduce_raw(void* data, std::size_t n, Element element, ReduceOp op,
                                 Traffic kind) {
  if (size() == 1) return group_->world.safepoint();
  const CollectiveCall call{
      .collective = Collective::all_reduce, .count = n, .element = element, .op = op, .kind = kind};
  const auto p = static_cast<std::size_t>(size());
  const std::size_t bytes = n * element_bytes(element);
  const auto slice = slice_of(rank_, size(), n, element);
  const std::size_t mine = (slice.end - slice.begin) * element_bytes(element);
  count(kind, (p - 1) * mine + bytes - mine, (p - 1) * mine + bytes - mine);
  HostMemory host(HostMemory::Use::update, data, bytes);
  collective(call, host.data(), host.data(), p * bytes, true, [&](Round& round, int r) {
    const auto s = slice_of(r, size(), n, element);
    reduce_in_rank_order(round.in, round.out, s.begin, s.end, element, op);
  });
  host.store();
}

void ThreadsComm::reduce_scatter_raw(void* data, std::size_t n, Element element, ReduceOp op,
                                     Traffic kind) {
  if (size() == 1) return group_->world.safepoint();
  const CollectiveCall call{.collective = Collective::reduce_scatter,
                            .count = n,
                            .element = element,
                            .op = op,
                            .kind = kind};
  const auto p = static_cast<std::size_t>(size());
  const std::size_t bytes = n * element_bytes(element);
  const auto block = block_of(rank_, n);
  const std::size_t mine = (block.end - block.begin) * element_bytes(element);
  count(kind, bytes - mine, (p - 1) * mine);
  HostMemory host(HostMemory::Use::update, data, bytes);
  collective(call, host.data(), host.data(), p * bytes, true, [&](Round& round, int r) {
    const auto b = block_of(r, n);
    const auto target = std::span(round.out).subspan(static_cast<std::size_t>(r), 1);
    reduce_in_rank_order(round.in, target, b.begin, b.end, element, op);
  });
  host.store(block.begin * element_bytes(element), block.end * element_bytes(element));
}

void ThreadsComm::broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) {
  HETSGD_CHECK_GE(root, 0);
  HETSGD_CHECK_LT(root, size());
  if (size() == 1) return group_->world.safepoint();
  const CollectiveCall call{
      .collective = Collective::broadcast, .count = bytes, .root = root, .kind = kind};
  const auto others = static_cast<std::size_t>(size()) - 1;
  count(kind, rank_ == root ? others * bytes : 0, rank_ == root ? 0 : bytes);
  HostMemory host(rank_ == root ? HostMemory::Use::read : HostMemory::Use::write, data, bytes);
  collective(call, host.data(), host.data(), others * bytes, rank_ == root,
             [&](Round& round, int r) {
               copy_bytes(round.out[static_cast<std::size_t>(r)],
                          round.in[static_cast<std::size_t>(root)], bytes);
             });
  if (rank_ != root) host.store();
}

void ThreadsComm::all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) {
  const CollectiveCall call{.collective = Collective::all_gather, .count = bytes, .kind = kind};
  const auto p = static_cast<std::size_t>(size());
  count(kind, (p - 1) * bytes, (p - 1) * bytes);
  const HostMemory source(mine, bytes);
  HostMemory target(HostMemory::Use::write, all, p * bytes);
  collective(call, source.data(), target.data(), p * p * bytes, true, [&](Round& round, int r) {
    auto* to = static_cast<std::byte*>(round.out[static_cast<std::size_t>(r)]);
    for (std::size_t from = 0; from < p; ++from)
      copy_bytes(to + from * bytes, round.in[from], bytes);
  });
  target.store();
}

void ThreadsComm::barrier() {
  collective({.collective = Collective::barrier}, nullptr, nullptr, 0, false, [](Round&, int) {});
}

std::unique_ptr<Comm> ThreadsComm::split(int color, int key) {
  const Choice choice{color, key};
  Place place;
  collective({.collective = Collective::split}, &choice, &place, 0, false,
             [&](Round& round, int r) {
               if (r == 0) make_groups(*group_, round);
             });
  if (!place.group) return nullptr;
  return std::make_unique<ThreadsComm>(std::move(place.group), place.rank);
}

void ThreadsComm::fence_together(FunctionRef fn) {
  World& world = group_->world;
  Passage passage(*this, {.collective = Collective::fence_together}, nullptr, nullptr,
                  [&](Round& round) { world.stop_for(*round.processes[0]); });
  passage.leave(false);
  if (rank_ == 0) {
    world.run_fenced(passage.lock(), fn);
  } else {
    world.park(passage.lock());
  }
}

}  // namespace hetsgd::threads
