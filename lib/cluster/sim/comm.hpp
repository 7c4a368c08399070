// SimComm: Comm on the virtual network.
#pragma once

#include <memory>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/sim/mailbox.hpp"
#include "cluster/sim/meeting.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

// What the Comms of one group share.
struct Group {
  Group(World& world_, std::vector<int> workers)
      : world(world_), mailboxes(workers.size()), meeting(world_, std::move(workers)) {}

  int size() const { return meeting.size(); }
  int worker(int rank) const { return meeting.workers()[static_cast<std::size_t>(rank)]; }
  Mailbox& mailbox(int rank) { return mailboxes[static_cast<std::size_t>(rank)]; }
  void check_rank(int rank) const;

  World& world;
  std::vector<Mailbox> mailboxes;  // by rank
  Meeting meeting;
};

class SimComm final : public Comm {
 public:
  SimComm(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  // A loop that only polls would stop virtual time: after a million misses without any other call
  // it is ended by a check failure.
  bool poll(int from, int tag) override;
  void barrier() override;
  std::unique_ptr<Comm> split(int color, int key) override;
  void send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) override;
  Envelope receive_bytes(int from, int tag, std::span<std::byte> data) override;
  void all_reduce_raw(void* data, std::size_t count, Element element, ReduceOp op,
                      Traffic kind) override;
  void broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) override;
  void all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) override;
  std::shared_ptr<const void> agree_raw(const void* mine, std::size_t bytes, const Maker& make,
                                        Traffic kind) override;
  void reduce_scatter_raw(void* data, std::size_t count, Element element, ReduceOp op,
                          Traffic kind) override;

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace hetsgd::sim
