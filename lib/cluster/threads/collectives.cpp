// The collectives of ThreadsComm.
#include <algorithm>
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
    if (colour >= 0) {
      std::vector<int> gpus;
      for (auto member = begin; member != end; ++member) {
        gpus.push_back(group.gpus[static_cast<std::size_t>(*member)]);
      }
      members = std::make_shared<Group>(group.world, group.pool, std::move(gpus), group.all_reduce);
    }
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
  Passage(ThreadsComm& comm, const CollectiveCall& call, const void* in, void* out, bool on_device,
          OnLast on_last)
      : comm_(comm), lock_(comm.group_->world.enter()), round_(join(call)) {
    const auto me = static_cast<std::size_t>(comm.rank_);
    round_.in[me] = in;
    round_.out[me] = out;
    round_.processes[me] = &World::current();
    if (on_device) ++round_.on_device;
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
      round.on_device = 0;
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

ThreadsComm::Buffers ThreadsComm::in_place(void* data, std::size_t bytes) {
  return {.in = data, .in_bytes = bytes, .out = data, .out_bytes = bytes, .in_place = true};
}

// move(round, rank) moves rank's share of the data. others_need_me: they use my buffers until all
// have left. False: some brought device memory and some did not, and nothing has been moved.
template <class Move>
bool ThreadsComm::meet(const CollectiveCall& call, const void* in, void* out, bool on_device,
                       std::size_t total_bytes, bool others_need_me, Move move) {
  World& world = group_->world;
  const bool small = total_bytes <= kSmallCollective;
  Passage passage(*this, call, in, out, on_device, [&](Round& round) {
    for (int r = 0; small && round.on_device == 0 && r < size(); ++r) move(round, r);
  });
  Round& round = passage.round();
  const int devices = round.on_device;
  if (devices != 0 && devices != size()) {
    passage.leave(false);
    return false;
  }
  if (small && devices == 0) {
    passage.leave(false);
    return true;
  }
  passage.lock().unlock();
  const Seconds begin = world.now();
  if (devices == 0) {
    move(round, rank_);
  } else {
    World::current().ledger.count(group_->gpu_path());
    try {
      group_->between_gpus->move(rank_, call, round.in, round.out);
    } catch (...) {  // the others are not kept waiting; all end at their next safepoint
      world.abort(std::current_exception());
    }
  }
  passage.leave(others_need_me || devices != 0);
  World::current().ledger.communicate += world.now() - begin;
  return true;
}

template <class Move>
void ThreadsComm::collective(const CollectiveCall& call, const Buffers& mine,
                             std::size_t total_bytes, bool others_need_me, Move move) {
  World& world = group_->world;
  if (group_->between_gpus) {
    const bool on_device =
        is_device_memory(mine.in, mine.in_bytes) || is_device_memory(mine.out, mine.out_bytes);
    if (on_device) World::current().device->synchronize();  // others read what it still writes
    if (meet(call, mine.in, mine.out, on_device, total_bytes, others_need_me, move)) {
      return world.safepoint();
    }
  }
  HostMemory target(mine.in_place ? HostMemory::Use::update : HostMemory::Use::write, mine.out,
                    mine.out_bytes);
  const HostMemory source(mine.in, mine.in_place ? 0 : mine.in_bytes);
  meet(call, mine.in_place ? target.data() : source.data(), target.data(), false, total_bytes,
       others_need_me, move);
  target.store(mine.changed.begin, std::min(mine.changed.end, mine.out_bytes));
  world.safepoint();
}

void ThreadsComm::all_reduce_raw(void* data, std::size_t n, Element element, ReduceOp op,
                                 Traffic kind) {
  if (size() == 1) return group_->world.safepoint();
  const CollectiveCall call{
      .collective = Collective::all_reduce, .count = n, .element = element, .op = op, .kind = kind};
  const auto p = static_cast<std::size_t>(size());
  const std::size_t bytes = n * element_bytes(element);
  const auto slice = whole_lines(rank_, size(), n, element);
  const std::size_t mine = (slice.end - slice.begin) * element_bytes(element);
  count(kind, (p - 1) * mine + bytes - mine, (p - 1) * mine + bytes - mine);
  collective(call, in_place(data, bytes), p * bytes, true, [&](Round& round, int r) {
    const auto s = whole_lines(r, size(), n, element);
    reduce_in_rank_order(round.in, round.out, s.begin, s.end, element, op);
  });
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
  Buffers mine_only = in_place(data, bytes);
  mine_only.changed = {block.begin * element_bytes(element), block.end * element_bytes(element)};
  collective(call, mine_only, p * bytes, true, [&](Round& round, int r) {
    const auto b = block_of(r, n);
    const auto target = std::span(round.out).subspan(static_cast<std::size_t>(r), 1);
    reduce_in_rank_order(round.in, target, b.begin, b.end, element, op);
  });
}

void ThreadsComm::broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) {
  HETSGD_CHECK_GE(root, 0);
  HETSGD_CHECK_LT(root, size());
  if (size() == 1) return group_->world.safepoint();
  const CollectiveCall call{
      .collective = Collective::broadcast, .count = bytes, .root = root, .kind = kind};
  const auto others = static_cast<std::size_t>(size()) - 1;
  count(kind, rank_ == root ? others * bytes : 0, rank_ == root ? 0 : bytes);
  const Buffers mine = rank_ == root ? Buffers{.in = data, .in_bytes = bytes}
                                     : Buffers{.out = data, .out_bytes = bytes};
  collective(call, mine, others * bytes, rank_ == root, [&](Round& round, int r) {
    if (r == root) return;
    copy_bytes(round.out[static_cast<std::size_t>(r)], round.in[static_cast<std::size_t>(root)],
               bytes);
  });
}

void ThreadsComm::all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) {
  const CollectiveCall call{.collective = Collective::all_gather, .count = bytes, .kind = kind};
  const auto p = static_cast<std::size_t>(size());
  count(kind, (p - 1) * bytes, (p - 1) * bytes);
  const Buffers buffers{.in = mine, .in_bytes = bytes, .out = all, .out_bytes = p * bytes};
  collective(call, buffers, p * p * bytes, true, [&](Round& round, int r) {
    auto* to = static_cast<std::byte*>(round.out[static_cast<std::size_t>(r)]);
    for (std::size_t from = 0; from < p; ++from)
      copy_bytes(to + from * bytes, round.in[from], bytes);
  });
}

void ThreadsComm::barrier() {
  meet({.collective = Collective::barrier}, nullptr, nullptr, false, 0, false, [](Round&, int) {});
  group_->world.safepoint();
}

std::unique_ptr<Comm> ThreadsComm::split(int color, int key) {
  const Choice choice{color, key};
  Place place;
  meet({.collective = Collective::split}, &choice, &place, false, 0, false,
       [&](Round& round, int r) {
         if (r == 0) make_groups(*group_, round);
       });
  group_->world.safepoint();
  if (!place.group) return nullptr;
  return std::make_unique<ThreadsComm>(std::move(place.group), place.rank);
}

void ThreadsComm::fence_together(FunctionRef fn) {
  World& world = group_->world;
  Passage passage(*this, {.collective = Collective::fence_together}, nullptr, nullptr, false,
                  [&](Round& round) { world.stop_for(*round.processes[0]); });
  passage.leave(false);
  if (rank_ == 0) {
    world.run_fenced(passage.lock(), fn);
  } else {
    world.park(passage.lock());
  }
}

}  // namespace hetsgd::threads
