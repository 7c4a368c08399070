// MpiComm: messages and collectives of a group of ranks.
//
// Collectives are made of our own messages and not of MPI's collectives, for four reasons. Sums
// must be added in rank order. A collective that waits for a rank which has failed must be given up
// without anybody writing to memory that is gone; MPI cannot cancel its own. Calls that differ
// between ranks must be an error that names both, not a hang. And a split needs no communicator,
// whose making blocks. Nothing is lost: the algorithms are those that MPI libraries use for
// non-blocking collectives, and large data go from user memory to user memory without a copy.
// Memory of GPUs: message_memory.hpp, and NCCL, whose collectives can be given up and know of no
// MPI.
//   all_reduce      small: all to all, each adds everything. Large: rank r gets the r-th slice of
//                   all, adds, and sends the result to all: 2 (p-1)/p n bytes each way.
//   reduce_scatter  the first half of it
//   all_gather      each to all
//   all_to_all      each to all, the lengths first: short parts with them
//   barrier         dissemination: ceil(log2 p) messages in a row
//   broadcast       small: the same, with the data. Large: slices from the root, then all_gather.
//
// The states of one collective on a rank:
//
//           small messages, which carry the call
//    begun ---------------------------------------> small: complete
//      |    rounds of a barrier, which do too          all bring GPU memory, NCCL works
//      +---------------------------------> all here ------------------------------> NCCL
//                                              |  else
//                                              +--> slices scattered --> gathered --> complete
//
// Differing calls. Small messages carry the caller's call, and a large collective begins with the
// messages of a barrier. So every rank hears, at least through others, of every call, and whether
// all buffers lie in memory of GPUs. If so, and if NCCL works between these (asked once per group),
// it does the rest.
//
// Lost workers. If a run loses workers, every collective begins with the messages of a barrier.
// Then all its ranks make it to the end, or none does (check_ins.hpp).
//
// Steps. In step d rank r sends to rank r + d and receives from rank r - d (modulo p). So no rank
// is the target of all others at once. Slices are received by requests that are posted before the
// sends of the same phase.
//
// Tags. A collective has the group's count of collectives in its tags (modulo 2048), and phases
// within it have different ones. A rank can be ahead of another by one collective at most, because
// each needs a message from every rank, at least through others. So a number is never in use twice.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/mpi/check_ins.hpp"
#include "cluster/mpi/gpu_ranks.hpp"
#include "cluster/mpi/message_memory.hpp"
#include "cluster/mpi/transport.hpp"
#include "cluster/realtime/started_calls.hpp"

namespace hetsgd::mpi {

// The part of a run that its communicators need. Implemented by MpiRun; outlives every
// communicator.
class CommHost : public realtime::HelperStarter {
 public:
  virtual ~CommHost() = default;
  // A number that no group of the run has had. Asked of rank 0; the calling process blocks. Throws
  // CheckFailure if there are more groups than the library's tags can tell apart.
  virtual int new_group() = 0;
  // This rank's GPU and its communicators of NCCL.
  virtual GpuRanks& gpus() = 0;
  // Null: no worker of the run is ever lost.
  virtual CheckIns* check_ins() = 0;
};

// A group as this rank knows it; shared by the communicators of its processes. Lives as long as one
// of those.
struct Group {
  Group(int its_number, std::vector<int> ranks, bool for_started = false)
      : number(its_number), members(std::move(ranks)), started(for_started) {}
  // The same ranks for the calls that they start (Comm::start_raw). The twin has tags, a count of
  // collectives and a communicator of NCCL of its own. The ranks make started calls and blocking
  // ones in no common order. Any process; made at the first call.
  const std::shared_ptr<Group>& twin() {
    std::call_once(once, [&] { its_twin = std::make_shared<Group>(number, members, true); });
    return its_twin;
  }
  const int number;
  // Ranks of the world, by rank in the group.
  const std::vector<int> members;
  // This is a twin.
  const bool started;
  // Collectives begun so far; it numbers their messages, so all ranks have the same count in one.
  std::atomic<std::uint32_t> calls = 0;
  // A process of this rank is in a collective. This flag guards the fields below, down to `nccl`.
  std::atomic<bool> inside = false;
  // Memory for what other ranks bring to a reduction, where that is host memory.
  HostScratch scratch;
  // The ranks have found out whether NCCL works between them.
  bool knows_nccl = false;
  // Null: NCCL does not work, or nobody knows yet. GpuRanks owns the object.
  cuda::NcclRank* nccl = nullptr;
  std::once_flag once;
  std::shared_ptr<Group> its_twin;
};

// Belongs to one process of a rank. Collectives of a group must not overlap on one rank (checked),
// those of its twin may; messages may be sent and received at any time. All errors of peers and of
// the library end the run (Transport); a run that is aborted unwinds the caller at its next wait.
class MpiComm final : public Comm {
 public:
  // rank: in the group. The transport and `host` outlive it.
  MpiComm(Transport& transport, CommHost& host, std::shared_ptr<Group> group, int rank)
      : transport_(transport),
        host_(host),
        group_(std::move(group)),
        members_(group_->members),
        rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  // A safepoint; asks the library, and does not wait.
  bool poll(int from, int tag) override;
  // Returns when `data` may be reused. Long data that nobody waits for are copied (transport.hpp).
  // posts: all of it is copied, also where the receiver waits.
  void send_raw(int to, int tag, std::span<const std::byte> data, Traffic kind,
                bool posts) override;
  // Throws CheckFailure if the message has another length.
  Envelope receive_raw(int from, int tag, std::span<std::byte> data) override;
  // Both sides say their lengths first, in a message that holds short data, too. Long data go
  // straight from memory to memory, because both sides are there then.
  void sendrecv_raw(int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                    Traffic kind) override;
  // Data may lie in host memory or in that of the process's GPU, on each rank as it likes.
  void make_raw(const CollectiveRequest& request) override;
  // The first call starts a helper, which makes all started calls of this communicator.
  std::unique_ptr<PendingCall> start_raw(const CollectiveRequest& request) override;

  // barrier() for a pause of all ranks: it has no safepoint at its end. So it returns even if the
  // world is being stopped by then, and its caller can take part in the pause.
  void meet(Collective why);

 private:
  class Inside;
  class AllToAllHere;
  struct Slices;
  // Phases of a collective, whose messages must not be mixed up: they are the low bits of its tags.
  enum Phase : int { kSmallPhase = 0, kScatter = 1, kGather = 2, kOfTwins = 4, kPhases = 8 };
  // --- ranks, tags and checks
  World& world() { return transport_.world(); }
  // Ranks of Comm are the group's, those of the transport the world's.
  int world_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  int rank_of_world(int world_rank) const;
  // The rank `distance` behind this one, around the group.
  int next(int distance) const { return (rank_ + distance) % size(); }
  int tag(int phase) const;
  void check_tag(int tag) const;
  // theirs: begins with the CollectiveCall of rank `other`.
  void check_call(const CollectiveCall& mine, int other, std::span<const std::byte> theirs) const;
  // Counts payload bytes in the caller's time breakdown. The bytes of collectives are traffic_of(),
  // so they do not depend on the threshold of small data or on the way through NCCL.
  void count(Traffic kind, std::size_t sent, std::size_t received);

  // --- small messages: the call, and data of at most a head's size behind it
  void send_small(int to, const CollectiveCall& call, std::span<const std::byte> data);
  bool receive_small(int from, const CollectiveCall& call, std::span<std::byte> data);
  void gather_small(const CollectiveCall& call, std::span<const std::byte> mine,
                    std::span<std::byte> all);
  // Dissemination: after the round of distance d a rank has heard of the 2 d - 1 ranks before it.
  bool rounds(const CollectiveCall& call, bool mine = true);
  // --- NCCL
  bool hopes_for_nccl() const;
  bool begin_large(const CollectiveCall& call, const void* in, const void* out);
  bool nccl_works(const CollectiveCall& call);
  void ask_for_nccl(CollectiveCall call);
  void by_nccl(const CollectiveCall& call, const void* in, void* out);
  // Whether this collective begins with an extra barrier: nothing else makes it wait for all before
  // it writes.
  bool checks_in(const CollectiveCall& call) const;
  // --- the parts of collectives (collectives.cpp)
  void spread(const CollectiveCall& call, std::span<std::byte> data);
  // The members of all colours get one new number, since no rank is in two of the new groups.
  void split_group(const CollectiveCall& call, SplitPart& part);
  void move_parts_of(const CollectiveCall& call, const AllToAll& mine);  // all_to_all.cpp
  void move_small(const CollectiveCall& call, CollectiveViews<HostMemory>& views);
  void move_large(const CollectiveCall& call, CollectiveViews<MessageMemory>& views);
  void reduce_small(const CollectiveCall& call, void* data);
  void reduce_slices(const CollectiveCall& call, MessageMemory& memory, const Slices& slices);
  void gather_slices(const Slices& slices, std::byte* data);
  void scatter_slices(const CollectiveCall& call, const Slices& slices, std::byte* data);

  Transport& transport_;
  CommHost& host_;
  const std::shared_ptr<Group> group_;
  // The ranks of group_, which do not change.
  const std::vector<int>& members_;
  const int rank_;
  // Null until the first started call.
  std::unique_ptr<realtime::StartedCalls> started_;
};

// The scope of one collective: one at a time per group, by one process; a safepoint at its start,
// and at leave() where the collective has ended well. The destructor alone runs where an exception
// unwinds it.
class MpiComm::Inside {
 public:
  explicit Inside(MpiComm& comm);
  void leave() { comm_.world().safepoint(); }
  ~Inside() { comm_.group_->inside = false; }

 private:
  MpiComm& comm_;
  const CheckIn check_in_;
};

}  // namespace hetsgd::mpi
