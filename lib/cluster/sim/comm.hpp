// SimComm: Comm on the virtual network.
//
// Messages travel one by one over the links (mailbox.hpp), except those of a collective. Its ranks
// meet in a Rendezvous, which moves the data at once and charges the analytic cost, and more if the
// links are taken. Calls that are started have rendezvous of their own (below), so they and the
// blocking ones are matched apart.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/sim/mailbox.hpp"
#include "cluster/sim/rendezvous.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

// The calls that are started on one group of simulated workers (pending.hpp). Such a call has no
// process; an event in virtual time completes it.
//
// Every rank numbers its calls in the order of starting; those with one number are one call and
// have one rendezvous. Rendezvous are opened by the first rank that starts a number. Only the
// oldest may move data, so the calls are made one after the other:
//
//   number      completed_    completed_ + 1   ...              largest that any rank has started
//   open_       [ front:      ][ waits for      ][ ... ][ back ]
//                 gathering       its turn
//                 or moving
//   when the front is complete: ended() takes it off, and the next one takes its turn
//
// A call goes on by itself, also while its caller computes; only wait() blocks, and only that time
// counts in the breakdown.

// Belongs to its group, and is used on the event loop's thread like everything there.
class StartedCalls final : public CollectiveOrder {
 public:
  explicit StartedCalls(World& world) : world_(world) {}

  // Implements Comm::start_raw. `group`: the owner, which lives until the call is complete, as the
  // call shares it: the Comm that started it may go before.
  std::unique_ptr<PendingCall> start(const std::shared_ptr<Group>& group, int rank,
                                     const CollectiveRequest& request);

 private:
  class Call;
  bool may_begin(const Rendezvous& rendezvous) const override {
    return open_.front().get() == &rendezvous;
  }
  void ended() override;
  // The rendezvous of call `number` >= completed_, which is at most one beyond the open calls.
  Rendezvous& rendezvous_of(const Group& group, std::uint64_t number);

  World& world_;
  std::deque<std::unique_ptr<Rendezvous>> open_;   // the first may be moving data
  std::vector<std::unique_ptr<Rendezvous>> free_;  // kept to be used again
  std::uint64_t completed_ = 0;                    // calls of all ranks
  std::vector<std::uint64_t> started_;             // by rank
};

// State that the Comms of one group share. It is owned by them together, and by messages in flight:
// a group of split() goes with the last of these. It refers to the world, which outlives it. "Rank"
// is a rank in this group; "worker" is the rank in the run, which links and breakdowns go by.
struct Group {
  Group(World& world_, std::vector<int> workers)
      : world(world_),
        members(world_, std::move(workers)),
        mailboxes(members.workers.size()),
        rendezvous(world_, members),
        started(world_) {}

  int size() const { return members.size(); }
  // `rank` in range, which callers have checked.
  int worker(int rank) const { return members.workers[static_cast<std::size_t>(rank)]; }
  Mailbox& mailbox(int rank) { return mailboxes[static_cast<std::size_t>(rank)]; }

  World& world;
  const Members members;
  std::vector<Mailbox> mailboxes;  // by rank
  Rendezvous rendezvous;           // for the blocking collectives
  StartedCalls started;
};

// One rank's handle: the group and its place in it. The pointers that the collectives pass on are
// the caller's memory, which stays where it is while the caller is blocked; nothing is copied.
// Buffers lie in host memory, as simulated devices are CPUs.
class SimComm final : public Comm {
 public:
  SimComm(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  // A loop that only polls would stop virtual time: after a million misses without a call that
  // blocks it is ended by a check failure.
  bool poll(int from, int tag) override;
  void send_raw(int to, int tag, std::span<const std::byte> data, Traffic kind,
                bool posts) override;
  Envelope receive_raw(int from, int tag, std::span<std::byte> data) override;
  void make_raw(const CollectiveRequest& request) override {
    group_->rendezvous.attend(rank_, request);
  }
  std::unique_ptr<PendingCall> start_raw(const CollectiveRequest& request) override {
    return group_->started.start(group_, rank_, request);
  }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace hetsgd::sim
