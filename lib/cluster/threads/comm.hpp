// ThreadsComm: messages and collectives over shared memory.
//
// Collectives. All ranks meet and leave pointers to their buffers; then each moves its share of the
// data straight between the ranks' buffers; then they meet again, since a buffer must not change
// while others read it. Reductions: rank r reduces the r-th slice over all ranks in rank order and
// stores the result in every rank's buffer. So each number is read once and written once, the least
// that p results in p buffers allow: for p ranks and n bytes the floor is 2 p n / (memory bandwidth
// of all cores together). Small collectives are done by the last rank to arrive, on behalf of all,
// and nobody has to meet twice.
//
// GPUs. In a group whose ranks all have GPUs, their buffers are moved between these by a GpuGroup
// (cluster/cuda), each rank its share, in place of host memory; where not all bring device memory
// to a call, and in mixed groups, every process copies its own to the host first and back
// afterwards (HostMemory).
//
// Bytes in the ledger. A rank has received what it read from others' memory and what others stored
// in its own; it has sent what others read from its memory and what it stored in theirs. For an
// all_reduce of n bytes that is 2 (p-1)/p n each way, the same as on a ring. They are counted alike
// for small collectives, whoever does the work.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "cluster/collective_call.hpp"
#include "cluster/comm.hpp"
#include "cluster/cuda/gpu_group.hpp"
#include "cluster/threads/exchange.hpp"
#include "cluster/threads/mailbox.hpp"
#include "cluster/threads/world.hpp"

namespace hetsgd::threads {

class Group;

// One collective in progress. A group has two, used in turn: a rank can be in the next collective
// while others still finish this one, but not further, because it needs them to arrive.
struct Round {
  std::uint64_t number = 0;
  int arrived = 0;
  int departed = 0;
  int first = 0;  // the rank that came first, with its call
  CollectiveCall call;
  int on_device = 0;            // ranks that brought device memory
  std::vector<const void*> in;  // by rank
  std::vector<void*> out;
  std::vector<Process*> processes;
};

// What the ranks of a communicator share. Guarded by the world's mutex.
class Group {
 public:
  // gpus: of each rank, -1: none. all_reduce: how collectives run between them.
  Group(World& world, MessagePool& pool, std::vector<int> gpus, AllReduce all_reduce);

  World& world;
  MessagePool& pool;
  const int size;
  const std::vector<int> gpus;
  const AllReduce all_reduce;
  const std::unique_ptr<cuda::GpuGroup> between_gpus;  // null: through host memory
  GpuPath gpu_path() const {
    return between_gpus->method() == AllReduce::nccl ? GpuPath::nccl : GpuPath::peers;
  }
  std::vector<Mailbox> mailboxes;     // by rank
  std::vector<Exchanges> exchanges;   // by rank
  std::vector<std::uint64_t> passed;  // collectives that each rank has completed
  std::vector<char> inside;           // a process of the rank is in a collective
  std::array<Round, 2> rounds;
};

class ThreadsComm final : public Comm {
 public:
  ThreadsComm(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }
  bool poll(int from, int tag) override;
  void barrier() override;
  std::unique_ptr<Comm> split(int color, int key) override;
  void send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) override;
  Envelope receive_bytes(int from, int tag, std::span<std::byte> data) override;
  // Each copies straight from the other's memory, once both are here.
  void exchange_bytes(int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                      Traffic kind) override;
  void all_reduce_raw(void* data, std::size_t count, Element element, ReduceOp op,
                      Traffic kind) override;
  void broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) override;
  void all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) override;
  void reduce_scatter_raw(void* data, std::size_t count, Element element, ReduceOp op,
                          Traffic kind) override;

  // The world stops when all ranks are here; rank 0 runs fn; then all go on.
  void fence_together(FunctionRef fn);

 private:
  class Passage;
  // What a rank brings to a collective: memory of the host or of its device.
  struct Buffers {
    const void* in = nullptr;
    std::size_t in_bytes = 0;
    void* out = nullptr;
    std::size_t out_bytes = 0;
    bool in_place = false;   // out is in
    Block changed{0, kAll};  // bytes of out
    static constexpr std::size_t kAll = ~std::size_t{0};
  };
  static Buffers in_place(void* data, std::size_t bytes);
  template <class Move>
  void collective(const CollectiveCall& call, const Buffers& mine, std::size_t total_bytes,
                  bool others_need_me, Move move);
  template <class Move>
  bool meet(const CollectiveCall& call, const void* in, void* out, bool on_device,
            std::size_t total_bytes, bool others_need_me, Move move);
  void finish_exchange(World::Lock& lock, PostedExchange& mine, Traffic kind);
  bool deliver(World::Lock& lock, int to, int tag, std::span<const std::byte> data, Traffic kind);
  Envelope take_message(World::Lock& lock, int from, int tag, std::span<std::byte> data);
  Envelope wait_for_message(World::Lock& lock, int from, int tag, std::span<std::byte> data);
  void count(Traffic kind, std::size_t sent, std::size_t received);

  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace hetsgd::threads
