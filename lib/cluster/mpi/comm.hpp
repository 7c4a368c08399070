// MpiComm: messages and collectives of a group of ranks.
//
// Collectives are made of our own messages and not of MPI's collectives, for four reasons. Sums
// must be added in rank order. One that waits for a rank which has failed must be given up without
// anybody writing to memory that is gone; MPI cannot cancel its own. Calls that differ between
// ranks must be an error that names both, not a hang. And a split needs no communicator, whose
// making blocks. Nothing is lost: the algorithms are those that MPI libraries use for non-blocking
// collectives, and large data go from user memory to user memory without a copy. Memory of GPUs:
// message_memory.hpp, and NCCL, whose collectives can be given up and know of no MPI.
//   all_reduce      small: all to all, each adds everything. Large: rank r gets the r-th slice of
//                   all, adds, and sends the result to all: 2 (p-1)/p n bytes each way.
//   reduce_scatter  the first half of it
//   all_gather      each to all
//   barrier         dissemination: ceil(log2 p) messages in a row
//   broadcast       small: the same, with the data. Large: slices from the root, then all_gather.
//
// Differing calls. Small messages carry the caller's call, and a large collective begins with the
// messages of a barrier: every rank hears, at least through others, of every call, and whether all
// buffers lie in memory of GPUs. If so, and if NCCL works between these (asked once per group), it
// does the rest.
#pragma once

#include <memory>
#include <vector>

#include "cluster/collective_call.hpp"
#include "cluster/comm.hpp"
#include "cluster/mpi/gpu_ranks.hpp"
#include "cluster/mpi/message_memory.hpp"
#include "cluster/mpi/transport.hpp"

namespace hetsgd::mpi {

// What the communicators of a run share.
class Groups {
 public:
  virtual ~Groups() = default;
  // A number that no group of the run has had. Asked of rank 0; the caller blocks.
  virtual int new_group() = 0;
  virtual GpuRanks& gpus() = 0;
};

// A group as this rank knows it; shared by the communicators of its processes.
struct Group {
  Group(int its_number, std::vector<int> ranks) : number(its_number), members(std::move(ranks)) {}
  const int number;
  const std::vector<int> members;        // ranks of the world, by rank in the group
  std::atomic<std::uint32_t> calls = 0;  // collectives so far: numbers their messages
  std::atomic<bool> inside = false;      // a process of this rank is in one
  Room scratch;                          // of that process
  bool knows_nccl = false;               // whether it works here
  cuda::NcclRank* nccl = nullptr;        // null: it does not
};

class MpiComm final : public Comm {
 public:
  MpiComm(Transport& transport, Groups& groups, std::shared_ptr<Group> group, int rank)
      : transport_(transport),
        groups_(groups),
        group_(std::move(group)),
        members_(group_->members),
        rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  bool poll(int from, int tag) override;
  void barrier() override;
  std::unique_ptr<Comm> split(int color, int key) override;
  void send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) override;
  Envelope receive_bytes(int from, int tag, std::span<std::byte> data) override;
  // Both say their lengths first. What is long goes straight from memory to memory, as both are
  // there then.
  void exchange_bytes(int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                      Traffic kind) override;
  void all_reduce_raw(void* data, std::size_t count, Element element, ReduceOp op,
                      Traffic kind) override;
  void broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) override;
  void all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) override;
  void reduce_scatter_raw(void* data, std::size_t count, Element element, ReduceOp op,
                          Traffic kind) override;

  // barrier() for a fence of all: returns at once even if the world is stopped just then.
  void meet(Collective why);

 private:
  class Inside;
  struct Slices;
  World& world() { return transport_.world(); }
  int world_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  int rank_of_world(int world_rank) const;
  int next(int distance) const { return (rank_ + distance) % size(); }
  int tag(int phase) const;
  void check_tag(int tag) const;
  void check_call(const CollectiveCall& mine, int other, std::span<const std::byte> theirs) const;
  void count(Traffic kind, std::size_t sent, std::size_t received);

  void send_small(int to, const CollectiveCall& call, std::span<const std::byte> data);
  bool receive_small(int from, const CollectiveCall& call, std::span<std::byte> data);
  void gather_small(const CollectiveCall& call, std::span<const std::byte> mine,
                    std::span<std::byte> all);
  bool rounds(const CollectiveCall& call, bool mine = true);
  bool begin_large(const CollectiveCall& call, const void* in, const void* out);
  void ask_for_nccl(CollectiveCall call);
  void by_nccl(const CollectiveCall& call, const void* in, void* out);
  void spread(const CollectiveCall& call, std::span<std::byte> data);
  void reduce_small(const CollectiveCall& call, void* data);
  void reduce_slices(const CollectiveCall& call, MessageMemory& memory, const Slices& slices);
  void gather_slices(const Slices& slices, std::byte* data);
  void broadcast_large(const CollectiveCall& call, std::span<std::byte> data);

  Transport& transport_;
  Groups& groups_;
  const std::shared_ptr<Group> group_;
  const std::vector<int>& members_;
  const int rank_;
};

}  // namespace hetsgd::mpi
