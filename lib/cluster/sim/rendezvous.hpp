// Rendezvous: one group's collectives, one at a time. Every rank arrives; the last one starts it;
// all go on when it has been over the network.
//
//                 the last rank joins, and
//                 (with a CollectiveOrder) its turn          the transfer's end
//   gathering --------------------------------------> moving ------------> complete
//    ^  0 < arrived_ < size                        host tasks run       finish_moving()
//    |                                             in host time               |
//    +------------------------------------------------------------------------+
//       arrived_ = 0, every rank is told and woken, the next in order takes its turn
//
// From the last arrival to the completion the contributions belong to the collective; the host pool
// moves the data meanwhile. It reduces in rank order, reads each input once, and writes each output
// once. That results are not seen before the completion is the ranks' part of the contract: a rank
// that looked earlier would find whatever the host has moved so far.
//
// It takes its members' links (transfer.hpp), where it may meet messages and other groups'
// collectives; alone it takes cost(). Where cores are shared (host_cores.hpp) each rank's copying
// is a task, too, and it is complete when the last of these has ended. All ranks leave it at the
// same time, whatever their place in its topology. Nothing here is locked: everything but move()
// runs on the event loop's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

class Rendezvous;

// Members of a group: their ranks in the run, by rank in the group, and the links that they take.
struct Members {
  Members(World& world, std::vector<int> workers_)
      : workers(std::move(workers_)), network(world.network.group(workers)) {}
  int size() const { return static_cast<int>(workers.size()); }

  const std::vector<int> workers;
  const GroupNetwork network;
};

// A rank in a collective, from its arrival to the completion. It lies on the stack of a process
// that waits in the rendezvous, or in a started call. It outlives the completion, or the run fails
// before another event (Engine::settle).
struct Attendance {
  Process* process = nullptr;  // is woken at the completion; null: nobody waits yet
  bool started = false;        // goes on by itself: no time of its process is counted
  bool complete = false;
  double begin = 0, end = 0;  // then: as CallTime
};

// The order of several rendezvous of one group that go on one after the other. It says whose turn
// it is.
class CollectiveOrder {
 public:
  // Asked when the last rank has joined.
  virtual bool may_begin(const Rendezvous& rendezvous) const = 0;
  // The rendezvous whose turn it was is complete. Called last in its completion event: it may be
  // reused at once, and the next one may start within this call.
  virtual void ended() = 0;

 protected:
  ~CollectiveOrder() = default;
};

class Rendezvous {
 public:
  // order: null where ranks wait in the rendezvous, and so come to the next call only after this
  // one. Members and order outlive the rendezvous.
  Rendezvous(World& world, const Members& members, CollectiveOrder* order = nullptr);

  int size() const { return members_.size(); }

  // Returns when the collective is complete. Checked: all ranks make the same call, and no rank is
  // here twice. The time until the last arrival is `wait` in the breakdown, that from then on
  // `communicate`.
  void attend(int rank, const CollectiveRequest& request);
  // The same without waiting: `mine` is complete later. The request and its memory are the
  // collective's until then. When it throws, this rank has not joined.
  void join(int rank, const CollectiveRequest& request, Attendance& mine);
  // From now on it may begin. Called by the order, once for every call that had to wait for its
  // turn.
  void take_turn();
  // When it returns no host thread touches the contributions any more. Blocks in host time only.
  // Also for a rank that is unwound while the collective is in progress, and whose memory is about
  // to go.
  void finish_moving();
  int arrived() const { return arrived_; }

 private:
  struct Range {  // range of elements: one task for the host pool
    Rendezvous* rendezvous;
    std::size_t begin, end;
    void operator()() const { rendezvous->move(begin, end); }
  };

  void start();  // all are here, and it has its turn
  void start_copies(double seconds);
  void part_ended();    // the transfer's, or a rank's copy
  void complete();      // the event at the end, when all parts have ended
  void start_moving();  // splits the data into tasks for the pool
  // Moves elements [begin, end) (bytes where nothing is reduced; receivers of an all_to_all). On a
  // pool thread: reads the call and the ranks' memory, writes to disjoint parts of the outputs.
  void move(std::size_t begin, std::size_t end) const;
  void reduce_all(std::size_t begin, std::size_t end) const;
  void reduce_blocks(std::size_t begin, std::size_t end) const;
  // Charged bytes of a call on the links; `inside`: those of an all_to_all on the links inside of
  // nodes.
  struct Load {
    double bytes = 0, inside = 0;
  };
  // Virtual seconds of the call alone on the network with this part of its load(); the algorithm is
  // the one for the whole load. Without bytes: the latencies.
  double cost(const Load& load) const;
  Load load() const;
  double charged() const;
  Load busiest_load() const;
  struct Inside {
    std::size_t elements = 0, parts = 0;
  };
  Inside inside(std::span<const std::size_t> counts, int rank) const;
  const AllToAll& parts(std::size_t rank) const { return *static_cast<const AllToAll*>(in_[rank]); }
  void count_bytes() const;
  void form_groups() const;
  void make_for_all() const;

  World& world_;
  const Members& members_;
  CollectiveOrder* const order_;
  Transfer* transfer_ = nullptr;        // while it is in progress
  std::deque<HostCores::Task> copies_;  // by rank, where cores are shared
  std::size_t parts_left_ = 0;
  // The earliest time of its beginning. If this call did not have to wait, the time is from an
  // earlier call; an arrival is later than that.
  double turn_ = 0;

  CollectiveCall call_;  // call of the rank that came first
  int arrived_ = 0;
  int first_ = 0;  // the rank that came first
  double last_arrival_ = 0;
  // By rank.
  std::vector<Attendance*> attendance_;  // null: not here yet
  std::vector<double> arrival_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  // Data movement. Tasks refer to ranges, so these come first.
  std::vector<Range> ranges_;
  std::deque<HostTask> tasks_;
};

}  // namespace hetsgd::sim
