// SimComm: Comm on the virtual network.
//
// Messages travel one by one over the links (mailbox.hpp), those of a collective do not: all ranks
// meet in a Rendezvous, which moves the data at once and charges the analytic cost, and more where
// the links are taken. Calls that are started have rendezvous of their own (started.hpp), so they
// and the blocking ones are matched apart.
#pragma once

#include <memory>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/sim/mailbox.hpp"
#include "cluster/sim/rendezvous.hpp"
#include "cluster/sim/started.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

// What the Comms of one group share. Owned by them together, and by messages in flight: a group of
// split() goes with the last of these. It refers to the world, which outlives it. "Rank" is a rank
// in this group; "worker" is the rank in the run, which links and breakdowns go by.
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
  Rendezvous rendezvous;           // of the blocking collectives
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
  void barrier() override;
  std::unique_ptr<Comm> split(int color, int key) override;
  void send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) override;
  void post_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) override;
  Envelope receive_bytes(int from, int tag, std::span<std::byte> data) override;
  void all_reduce_raw(void* data, std::size_t count, Element element, ReduceOp op,
                      Traffic kind) override;
  void broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) override;
  void all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) override;
  std::shared_ptr<const void> agree_raw(const void* mine, std::size_t bytes, const Maker& make,
                                        Traffic kind) override;
  void reduce_scatter_raw(void* data, std::size_t count, Element element, ReduceOp op,
                          Traffic kind) override;
  void all_to_all_raw(const AllToAll& mine, Traffic kind) override;
  std::unique_ptr<PendingCall> start_raw(const CollectiveRequest& request) override {
    return group_->started.start(group_, rank_, request);
  }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace hetsgd::sim
