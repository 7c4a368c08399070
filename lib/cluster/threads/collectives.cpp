// The collectives of ThreadsComm:
//
//   make_raw()            bytes for the breakdown; device memory: straight between GPUs, or through
//     |                   views on the host
//     meet()              small: the last one moves for all; else each for itself, in parallel
//       CollectiveScope   arrival, waiting, departure
//       move_share()      what one rank moves
#include "cluster/blocking.hpp"
#include "cluster/realtime/host_memory.hpp"
#include "cluster/realtime/waiting.hpp"
#include "cluster/reduce.hpp"
#include "cluster/threads/comm.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::threads {

namespace {

// Up to here (bytes of all ranks together) the last rank to arrive moves everything, which saves
// the second rendezvous.
constexpr std::size_t kSmallCollective = 32 * 1024;

// Called by the last rank to arrive, with the mutex held: round.out are the parts of all ranks. One
// thread makes all groups, so that members share one object. Rank i of a new group is ranks[i] of
// the old one.
void make_groups(const Group& group, const Round& round) {
  const auto part = [&](int r) { return static_cast<SplitPart*>(round.out[at(r)]); };
  std::vector<SplitChoice> choices;
  for (int r = 0; r < group.size; ++r) choices.push_back(part(r)->choice);
  for (const std::vector<int>& ranks : plan_groups(choices)) {
    std::vector<int> gpus;
    for (const int r : ranks) gpus.push_back(group.gpus[at(r)]);
    const auto members = std::make_shared<Group>(group.world, group.pool, group.helpers,
                                                 std::move(gpus), group.all_reduce);
    int rank = 0;
    for (const int r : ranks) part(r)->comm = std::make_unique<ThreadsComm>(members, rank++);
  }
}

// Moves rank r's share of the data: reads all ranks' buffers and writes those that no other share
// writes. Must not throw where the ranks move in parallel, as the others would wait for this one.
//
//   all_reduce       r's slice, in every rank's buffer. Slices are whole cache lines, so no line is
//                    written by two cores.
//   reduce_scatter   r's block, in its own buffer alone: blocks are those that the caller sees
//   others           what r gets, straight out of the others' memory
//   split            rank 0's share is all of it: it has no bytes, so the last to arrive moves
//                    everything, before anybody leaves
void move_share(const Group& group, const CollectiveCall& call, const Round& round, int r) {
  const int p = group.size;
  switch (call.collective) {
    case Collective::all_reduce: {
      const Block s = whole_lines(r, p, call.count, call.element);
      return reduce_in_rank_order(round.in, round.out, s.begin, s.end, call.element, call.op);
    }
    case Collective::reduce_scatter: {
      const Block b = block_of(r, p, call.count);
      return reduce_in_rank_order(round.in, {&round.out[at(r)], 1}, b.begin, b.end, call.element,
                                  call.op);
    }
    case Collective::broadcast:
      if (r != call.root) copy_bytes(round.out[at(r)], round.in[at(call.root)], call.count);
      return;
    case Collective::all_gather: {
      auto* to = static_cast<std::byte*>(round.out[at(r)]);
      for (const void* from : round.in) {
        copy_bytes(to, from, call.count);
        to += call.count;
      }
      return;
    }
    case Collective::all_to_all:
      return move_parts(round.in, at(r), at(r) + 1);
    case Collective::split:
      if (r == 0) make_groups(group, round);
      return;
    default:
      return;
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
      : comm_(comm), lock_(begin_communication(comm.group_->world)), round_(join(call, mine)) {
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
    // Once all are here the others count on this rank, on its buffers and on its departure: it does
    // its part even if the run is aborted.
    const auto all_here = [&] { return round_.arrived == comm.size(); };
    comm.group_->world.block(lock_, Until(
                                        all_here,
                                        [&] {
                                          return blocked_in_collective(
                                              collective_name(round_.call.collective),
                                              round_.arrived, comm.size());
                                        },
                                        [&] { return !all_here(); }));
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
      const Until all_gone([&] { return round_.departed == group.size; },
                           [&] {
                             return blocked_in_collective(collective_name(round_.call.collective),
                                                          group.size, group.size);
                           },
                           std::false_type());
      group.world.block(lock_, all_gone, nullptr);
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

  // Compares the lengths with those of all ranks that have come: a rank that differs does not
  // arrive, so that nobody reads what does not fit. `inside` and `passed` tell which ranks have
  // come, as the round's pointers may be of an old one.
  void check_lengths(const Round& round, const Contribution& mine) const {
    const Group& group = *comm_.group_;
    for (int other = 0; other < group.size; ++other) {
      const auto r = static_cast<std::size_t>(other);
      if (!group.inside[r] || group.passed[r] + 1 != round.number) continue;
      check_same_parts(other, *static_cast<const AllToAll*>(round.in[r]), comm_.rank_,
                       *static_cast<const AllToAll*>(mine.in));
    }
  }

  // Wakes the ranks that are still inside. A rank that has departed may be anywhere, even at an
  // end: its process is not this round's any more.
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

// others_need_me: the other ranks use my buffers until all have left. False: some brought device
// memory and some did not, and nothing has been moved; all ranks find the same, and all come again
// with host memory.
//
//   bytes of all   memory      who moves                              second meeting
//   small          host        the last to arrive, under the mutex    none: all is done at its end
//   large          host        each its share, without the mutex      if others_need_me
//   any            GPUs        each its share, by the GpuGroup        always: streams read buffers
bool ThreadsComm::meet(const CollectiveCall& call, const Contribution& mine, bool others_need_me) {
  World& world = group_->world;
  CollectiveScope scope(*this, call, mine, [&](Round& round) {
    const bool small = round.bytes <= kSmallCollective;
    for (int r = 0; small && round.on_device == 0 && r < size(); ++r) {
      move_share(*group_, call, round, r);
    }
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
      move_share(*group_, call, round, rank_);
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
// stored after it: nobody's copies hold up the ranks that have met.
void ThreadsComm::make_raw(const CollectiveRequest& request) {
  const CollectiveCall& call = request.call;
  if (call.collective == Collective::agree) return agree_by_gathering(request);
  World& world = group_->world;
  const CollectiveMemory mine = memory_of(request, rank_, size());
  const bool in_parts = call.collective == Collective::all_to_all;
  const auto [sent, received] = traffic_of(request, rank_, size());
  count(call.kind, sent, received);
  // Alone a rank has everything, or copies it within its GPU.
  if (size() == 1 && (mine.in_place || call.collective == Collective::broadcast ||
                      copied_on_device(mine.out, mine.in, mine.in_bytes))) {
    return world.safepoint();
  }
  // The other ranks read the counts of an all_to_all, too.
  const bool others_need_me = mine.in_bytes > 0 || in_parts;
  if (group_->between_gpus) {
    // A rank that brings nothing to an all_to_all is in nobody's way.
    const bool on_device = is_device_memory(mine.in, mine.in_bytes) ||
                           is_device_memory(mine.out, mine.out_bytes) ||
                           (in_parts && mine.in_bytes + mine.out_bytes == 0);
    if (on_device) World::current().device->synchronize();  // others read what it still writes
    const void* const in = in_parts ? &request.parts : mine.in;
    if (meet(call, {in, mine.out, mine.out_bytes, on_device}, others_need_me)) {
      return world.safepoint();
    }
  }
  CollectiveViews<HostMemory> host(mine);
  const AllToAll parts = request.parts.in_memory(host.in(), host.out());
  const void* const in = in_parts ? static_cast<const void*>(&parts) : host.in();
  meet(call, {in, host.out(), mine.out_bytes}, others_need_me);
  host.store();
  world.safepoint();
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
