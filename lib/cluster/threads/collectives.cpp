// The collectives of ThreadsComm. Each says how it moves one rank's share; meet() and
// CollectiveScope bring the ranks together, collective() takes care of where the buffers lie.
//
//   all_reduce_raw, ...   bytes for the breakdown, and move(round, r): what rank r does
//     collective()        device memory: straight between GPUs, or through views on the host
//       meet()            small: the last one moves for all; else each for itself, in parallel
//         CollectiveScope arrival, waiting, departure
#include <algorithm>

#include "cluster/blocking.hpp"
#include "cluster/group_plan.hpp"
#include "cluster/realtime/host_memory.hpp"
#include "cluster/reduce.hpp"
#include "cluster/threads/comm.hpp"
#include "core/error.hpp"

namespace hetsgd::threads {

namespace {

// Up to here (bytes of all ranks together) the last rank to arrive moves everything, which saves
// the second rendezvous.
constexpr std::size_t kSmallCollective = 32 * 1024;

// What a rank gets of a split.
struct SplitPlace {
  std::shared_ptr<Group> group;  // null: joins none
  int rank = 0;
};

// Called by the last rank to arrive, with the mutex held: round.in are the choices of all ranks and
// round.out their places. One thread makes all groups, so that members share one object. Rank i of
// a new group is ranks[i] of the old one.
void make_groups(const Group& group, const Round& round) {
  std::vector<SplitChoice> choices;
  for (const void* choice : round.in) choices.push_back(*static_cast<const SplitChoice*>(choice));
  for (const std::vector<int>& ranks : plan_groups(choices)) {
    std::vector<int> gpus;
    for (const int r : ranks) gpus.push_back(group.gpus[static_cast<std::size_t>(r)]);
    const auto members = std::make_shared<Group>(group.world, group.pool, group.background_tasks,
                                                 std::move(gpus), group.all_reduce);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      *static_cast<SplitPlace*>(round.out[static_cast<std::size_t>(ranks[i])]) = {
          members, static_cast<int>(i)};
    }
  }
}

}  // namespace

// One rank's way through one collective: the constructor returns when all ranks are here, with the
// mutex held. The last one to arrive calls on_last(round) before anybody goes on.
//
// enter(), join() and the arrival are one critical section: after an abort no rank arrives, so a
// rank that is unwound while it waits takes no buffers away from anybody.
class ThreadsComm::CollectiveScope {
 public:
  template <class OnLast>
  CollectiveScope(ThreadsComm& comm, const CollectiveCall& call, const Contribution& mine,
                  OnLast on_last)
      : comm_(comm), lock_(comm.group_->world.enter()), round_(join(call, mine)) {
    const auto me = static_cast<std::size_t>(comm.rank_);
    round_.in[me] = mine.in;
    round_.out[me] = mine.out;
    round_.bytes += mine.bytes;
    round_.processes[me] = &World::current();
    if (mine.on_device) ++round_.on_device;
    if (++round_.arrived == comm.size()) {
      on_last(round_);
      wake_others();
      return;
    }
    class ForAll final : public Wait {
     public:
      ForAll(const Round& round, int size) : round_(round), size_(size) {}
      bool ready() const override { return round_.arrived == size_; }
      // Once all are here the others count on this rank, on its buffers and on its departure: it
      // does its part even if the run is aborted.
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
  // This is the second meeting. The waiting is no `wait` in the breakdown: meet() charges it with
  // the moving, since slow copies of others are part of the collective's transfer.
  //
  // The last two lines give the rank its next number. They come after the wait, as the last to
  // leave wakes those that are still inside.
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
  // Finds the round of this rank's next collective. It is checked before anything is changed: a
  // rank that throws here has not arrived, and the others are unwound when its exception ends the
  // run.
  Round& join(const CollectiveCall& call, const Contribution& mine) {
    Group& group = *comm_.group_;
    const int rank = comm_.rank_;
    const auto me = static_cast<std::size_t>(rank);
    if (group.inside[me]) {
      throw CheckFailure(
          fmt::format("two processes of rank {} are in a collective of one group at once", rank));
    }
    // Two rounds are enough: this rank comes to collective n only after all have arrived in n - 1,
    // and so after all have departed from n - 2, whose round it is.
    const std::uint64_t number = group.passed[me] + 1;
    Round& round = group.rounds[number % 2];
    if (round.number != number) {
      round.number = number;
      round.arrived = 0;
      round.departed = 0;
      round.on_device = 0;
      round.bytes = 0;
      round.first = rank;
      round.call = call;
    } else {
      check_same_call(round.first, round.call, rank, call);
    }
    if (call.collective == Collective::all_to_all) check_lengths(round, mine);
    group.inside[me] = 1;
    return round;
  }

  // With all that have come: a rank that differs does not arrive, so that nobody reads what does
  // not fit. `inside` and `passed` tell who has come, as the round's pointers may be of an old one.
  void check_lengths(const Round& round, const Contribution& mine) const {
    const Group& group = *comm_.group_;
    for (int other = 0; other < group.size; ++other) {
      const auto r = static_cast<std::size_t>(other);
      if (!group.inside[r] || group.passed[r] + 1 != round.number) continue;
      check_same_parts(other, *static_cast<const AllToAll*>(round.in[r]), comm_.rank_,
                       *static_cast<const AllToAll*>(mine.in));
    }
  }

  // Those who are still inside. A rank that has departed may be anywhere, even at an end: its
  // process is not this round's any more.
  void wake_others() {
    Group& group = *comm_.group_;
    for (std::size_t r = 0; r < round_.processes.size(); ++r) {
      if (group.inside[r]) group.world.wake(*round_.processes[r]);
    }
  }

  ThreadsComm& comm_;
  World::Lock lock_;  // before round_, which join() finds with the mutex held
  Round& round_;
};

ThreadsComm::Buffers ThreadsComm::in_place(void* data, std::size_t bytes) {
  return {.in = data, .in_bytes = bytes, .out = data, .out_bytes = bytes, .in_place = true};
}

// move(round, rank) moves rank's share of the data: it reads all ranks' buffers and writes those
// that no other share writes, and must not throw, as the others would wait for this rank for ever.
// others_need_me: they use my buffers until all have left. False: some brought device memory and
// some did not, and nothing has been moved; all ranks find the same, and all come again with host
// memory.
//
//   bytes of all   memory      who moves                              second meeting
//   small          host        the last to arrive, under the mutex    none: all is done at its end
//   large          host        each its share, without the mutex      if others_need_me
//   any            GPUs        each its share, by the GpuGroup        always: streams read buffers
template <class Move>
bool ThreadsComm::meet(const CollectiveCall& call, const Contribution& mine, bool others_need_me,
                       Move move) {
  World& world = group_->world;
  CollectiveScope scope(*this, call, mine, [&](Round& round) {
    const bool small = round.bytes <= kSmallCollective;
    for (int r = 0; small && round.on_device == 0 && r < size(); ++r) move(round, r);
  });
  Round& round = scope.round();
  const bool small = round.bytes <= kSmallCollective;
  const int devices = round.on_device;
  if (devices != 0 && devices != size()) {
    scope.leave(false);
    return false;
  }
  if (small && devices == 0) {
    scope.leave(false);
    return true;
  }
  scope.lock().unlock();
  const Seconds begin = world.now();
  try {
    if (devices == 0) {
      move(round, rank_);
    } else {
      World::current().breakdown.count(group_->gpu_path());
      group_->between_gpus->move(rank_, call, round.in, round.out);
    }
  } catch (...) {  // the others are not kept waiting; all end at their next safepoint
    world.abort(std::current_exception());
  }
  scope.leave(others_need_me || devices != 0);
  World::current().spend(&TimeBreakdown::communicate, world.now() - begin);
  return true;
}

// Where the group has GPUs the device memory is tried first; a rank cannot know what the others
// bring, so it takes a meeting to find out. Views on the host are made before the other meeting and
// stored after it: nobody's copies hold up those who have met.
template <class Move>
void ThreadsComm::collective(const CollectiveCall& call, const Buffers& mine, bool others_need_me,
                             Move move) {
  World& world = group_->world;
  if (group_->between_gpus) {
    const bool on_device =
        is_device_memory(mine.in, mine.in_bytes) || is_device_memory(mine.out, mine.out_bytes);
    if (on_device) World::current().device->synchronize();  // others read what it still writes
    if (meet(call, {mine.in, mine.out, mine.out_bytes, on_device}, others_need_me, move)) {
      return world.safepoint();
    }
  }
  HostMemory target(mine.in_place ? HostMemory::Use::update : HostMemory::Use::write, mine.out,
                    mine.out_bytes);
  const HostMemory source(mine.in, mine.in_place ? 0 : mine.in_bytes);
  const void* const in = mine.in_place ? target.data() : source.data();
  meet(call, {in, target.data(), mine.out_bytes}, others_need_me, move);
  target.store(mine.changed.begin, std::min(mine.changed.end, mine.out_bytes));
  world.safepoint();
}

// Every rank writes its slice in all buffers. Slices are whole cache lines, so no line is written
// by two cores. Bytes: this rank reads its slice of p - 1 others and gets bytes - mine from them;
// it stores its slice at p - 1 others, which read the rest of its buffer.
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
  collective(call, in_place(data, bytes), true, [&](Round& round, int r) {
    const auto s = whole_lines(r, size(), n, element);
    reduce_in_rank_order(round.in, round.out, s.begin, s.end, element, op);
  });
}

// The first half of an all_reduce: each rank reduces its block into its own buffer alone. Blocks
// are those of Comm::block_of, which the caller sees, not whole cache lines. Of a device's buffer
// only the block is stored back, as the rest is unspecified.
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
  collective(call, mine_only, true, [&](Round& round, int r) {
    const auto b = block_of(r, n);
    const auto target = std::span(round.out).subspan(static_cast<std::size_t>(r), 1);
    reduce_in_rank_order(round.in, target, b.begin, b.end, element, op);
  });
}

// The root brings a source and no target, the others the reverse. Each copies for itself; only the
// root has to stay until all have.
void ThreadsComm::broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) {
  check_rank(root, size());
  if (size() == 1) return group_->world.safepoint();
  const CollectiveCall call{
      .collective = Collective::broadcast, .count = bytes, .root = root, .kind = kind};
  const auto others = static_cast<std::size_t>(size()) - 1;
  count(kind, rank_ == root ? others * bytes : 0, rank_ == root ? 0 : bytes);
  const Buffers mine = rank_ == root ? Buffers{.in = data, .in_bytes = bytes}
                                     : Buffers{.out = data, .out_bytes = bytes};
  collective(call, mine, rank_ == root, [&](Round& round, int r) {
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
  collective(call, buffers, true, [&](Round& round, int r) {
    auto* to = static_cast<std::byte*>(round.out[static_cast<std::size_t>(r)]);
    for (std::size_t from = 0; from < p; ++from)
      copy_bytes(to + from * bytes, round.in[from], bytes);
  });
}

// Each copies what it gets straight out of the others' memory.
void ThreadsComm::all_to_all_raw(const AllToAll& mine, Traffic kind) {
  const CollectiveCall call{
      .collective = Collective::all_to_all, .count = mine.width, .kind = kind};
  const std::size_t send = mine.send_bytes(), receive = mine.receive_bytes();
  count(kind, mine.bytes_out(rank_), mine.bytes_in(rank_));
  // Alone a rank keeps all: on a GPU by a copy within its memory.
  if (size() == 1 && copied_on_device(mine.receive, mine.send, send)) {
    return group_->world.safepoint();
  }
  const auto move = [](Round& round, int r) {
    move_parts(round.in, static_cast<std::size_t>(r), static_cast<std::size_t>(r) + 1);
  };
  if (group_->between_gpus) {
    // Who brings nothing is in nobody's way.
    const bool on_device = send + receive == 0 || is_device_memory(mine.send, send) ||
                           is_device_memory(mine.receive, receive);
    if (on_device) World::current().device->synchronize();
    if (meet(call, {&mine, nullptr, receive, on_device}, true, move)) {
      return group_->world.safepoint();
    }
  }
  HostMemory target(HostMemory::Use::write, mine.receive, receive);
  const HostMemory source(mine.send, send);
  AllToAll on_host = mine;
  on_host.send = source.data();
  on_host.receive = target.data();
  meet(call, {&on_host, nullptr, receive}, true, move);
  target.store();
  group_->world.safepoint();
}

// A collective without data is a small one: the last to arrive lets all go.
void ThreadsComm::barrier() {
  meet({.collective = Collective::barrier}, {}, false, [](Round&, int) {});
  group_->world.safepoint();
}

// No bytes, so that the last to arrive does rank 0's share, which is all of it, before anybody
// leaves: choice and place may then go with this frame.
std::unique_ptr<Comm> ThreadsComm::split(int color, int key) {
  const SplitChoice choice{color, key};
  SplitPlace place;
  meet({.collective = Collective::split}, {&choice, &place}, false, [&](Round& round, int r) {
    if (r == 0) make_groups(*group_, round);
  });
  group_->world.safepoint();
  if (!place.group) return nullptr;
  return std::make_unique<ThreadsComm>(std::move(place.group), place.rank);
}

// The last to arrive begins the pause in the critical section in which it arrives, so no rank can
// get past this call before it: those that are woken are held back by the pause itself. Rank 0's
// process owns it. Nobody waits for departures; the end of the pause lets all go on.
void ThreadsComm::while_paused_together(FunctionRef fn) {
  World& world = group_->world;
  CollectiveScope scope(*this, {.collective = Collective::while_paused_together}, {},
                        [&](Round& round) { world.stop_for(*round.processes[0]); });
  scope.leave(false);
  if (rank_ == 0) {
    world.run_stopped(scope.lock(), fn);
  } else {
    world.park(scope.lock());
  }
}

}  // namespace hetsgd::threads
