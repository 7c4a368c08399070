// ThreadsComm: messages and collectives over shared memory.
//
// Collectives. All ranks meet and leave pointers to their buffers. Then each moves its share of the
// data straight between the ranks' buffers. Then they meet again, because a buffer must not change
// while others read it. Reductions: rank r reduces the r-th slice over all ranks in rank order and
// stores the result in every rank's buffer. So each element is read once and written once, the
// least that p results in p buffers allow. For p ranks and n bytes the floor is 2 p n / (memory
// bandwidth of all cores together). Small collectives are done by the last rank to arrive, on
// behalf of all, and nobody has to meet twice.
//
// A rank in a collective (CollectiveScope in collectives.cpp):
//
//             join: same call?        all are here               leave()
//   outside ------------------> arrived ---------> moves its share -----> departed ------> outside
//                               |                  (mutex given up)       until all have
//                               | abort: unwound,                         left, if others
//                               v no data have moved                      need its buffers
//
// A rank may be unwound after it has arrived while others are missing. Nobody touches its buffers
// before the last one comes. After an abort nobody comes, because arriving and the safepoint before
// it are one critical section. From the last arrival on nothing is interruptible: an abort takes
// effect at the safepoint that ends each collective.
//
// Which collective it is: every rank numbers the collectives that it has passed through. Two ranks
// with the same number are in the same collective, and must have asked for the same thing.
//
// Messages. send() returns when its data are copied, and never waits for the receiver. The protocol
// is in mailbox.hpp, that of sendrecv() in sendrecv.hpp.
//
// GPUs. In a group whose ranks all have GPUs, their buffers are moved between these by a GpuGroup
// (cluster/cuda), each rank its share, in place of host memory. Where not all bring device memory
// to a call, and in mixed groups, every process copies its own to the host first and back
// afterwards.
//
// Bytes in the time breakdown: traffic_of(), whichever rank does the work.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/cuda/gpu_group.hpp"
#include "cluster/realtime/started_calls.hpp"
#include "cluster/realtime/world.hpp"
#include "cluster/threads/mailbox.hpp"
#include "cluster/threads/sendrecv.hpp"

namespace hetsgd::threads {

class Group;

// One collective in progress. A group has two, used in turn: a rank can be in the next collective
// while others still finish this one, but not further, because it needs them to arrive.
//
// The first rank to arrive makes the round its own (number, call) and clears the counters; nobody
// clears it at the end. The pointers of a rank are valid from its arrival until it departs.
// Pointers of a former round stay where they are, so only ranks that are known to have arrived are
// looked at.
struct Round {
  std::uint64_t number = 0;  // number of the collective, from 1 on
  int arrived = 0;
  int departed = 0;
  int first = 0;  // the rank that came first, with its call
  CollectiveCall call;
  int on_device = 0;            // ranks that brought device memory
  std::size_t bytes = 0;        // bytes that all ranks get together
  std::vector<const void*> in;  // by rank; for an all_to_all its AllToAll
  std::vector<void*> out;
  std::vector<Process*> processes;  // by rank: the process that came for it, to be woken
};

// State that the ranks of a communicator share: each rank's ThreadsComm holds a reference, and the
// last one frees it. Guarded by the world's mutex, but for what is constant.
//
// A twin is a group of its own with mailboxes and rounds of its own. So what the helpers
// of started calls do there is matched with nothing that the ranks do in this one.
class Group {
 public:
  // gpus: the GPU of each rank, -1: none. all_reduce: how collectives run between them. The first
  // three must outlive the group. Throws what make_gpu_group() throws.
  Group(World& world, MessagePool& pool, HelperStarter& helpers, std::vector<int> gpus,
        AllReduce all_reduce);
  // The same ranks for the calls that they start. Any process, without the mutex; the first call
  // makes it, for all ranks.
  const std::shared_ptr<Group>& twin();

  World& world;
  MessagePool& pool;
  HelperStarter& helpers;
  const int size;
  const std::vector<int> gpus;
  const AllReduce all_reduce;
  const std::unique_ptr<cuda::GpuGroup> between_gpus;  // null: through host memory
  // Only where there is a between_gpus.
  GpuPath gpu_path() const {
    return between_gpus->method() == AllReduce::nccl ? GpuPath::nccl : GpuPath::peers;
  }
  std::vector<Mailbox> mailboxes;          // by rank
  std::vector<PostedSendrecvs> sendrecvs;  // by rank
  std::vector<std::uint64_t> passed;       // collectives that each rank has completed
  std::vector<char> inside;                // a process of the rank is in a collective
  std::array<Round, 2> rounds;

 private:
  std::shared_ptr<Group> twin_;  // null until it is asked for
};

// One rank's end of a group, used by the processes of that rank. Messages and sendrecvs may be in
// flight from several of its processes at once, a collective from one (checked).
//
// Every call begins with a safepoint, and ends with one if it moves data. It takes memory of the
// host or of the process's device, and counts its bytes and times in the breakdown of the calling
// process. Throws CheckFailure if arguments are out of range or ranks do not ask for the same,
// Error(device) if a copy fails.
class ThreadsComm final : public Comm {
 public:
  ThreadsComm(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }
  bool poll(int from, int tag) override;
  // Waits for nobody, whether it posts or not.
  void send_raw(int to, int tag, std::span<const std::byte> data, Traffic kind,
                bool posts) override;
  Envelope receive_raw(int from, int tag, std::span<std::byte> data) override;
  // Each copies straight from the other's memory, once both are here. peer: another rank.
  void sendrecv_raw(int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                    Traffic kind) override;
  void make_raw(const CollectiveRequest& request) override;
  std::unique_ptr<PendingCall> start_raw(const CollectiveRequest& request) override;

  // The world stops when all ranks are here; rank 0 runs fn; then all go on. Waiting for the others
  // to come is on the clock, what follows is not. Rank 0 throws what fn throws.
  void while_paused_together(FunctionRef fn);

 private:
  class CollectiveScope;
  // A rank's contribution, as the others see it: pointers that they may follow. bytes: the number
  // that the rank gets.
  struct Contribution {
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t bytes = 0;
    bool on_device = false;
  };
  // One meeting of the ranks, which knows nothing of copies to the host.
  bool meet(const CollectiveCall& call, const Contribution& mine, bool others_need_me);
  // In the next four the mutex is held before and after, and given up for large copies.
  void finish_sendrecv(World::Lock& lock, PostedSendrecv& mine, Traffic kind);
  bool deliver(World::Lock& lock, int to, int tag, std::span<const std::byte> data, Traffic kind);
  Envelope take_message(World::Lock& lock, int from, int tag, std::span<std::byte> data);
  Envelope wait_for_message(World::Lock& lock, int from, int tag, std::span<std::byte> data);
  void count(Traffic kind, std::size_t sent, std::size_t received);

  std::shared_ptr<Group> group_;
  int rank_;
  std::unique_ptr<StartedCalls> started_;  // null until the first
};

}  // namespace hetsgd::threads
