// Transport: the messages of one run, on a communicator of its own.
//
// Form of a message. A head of up to 4 KB, which MPI libraries send at once without a handshake:
// its size, its kind of traffic and the first bytes. What is left follows in one piece or in
// several. So a receiver knows what comes before it posts receives into the caller's memory, every
// size is checked, and the head tells when the sender sent.
//
// Sending. If the receiver waits already (the head of a long message is sent by MPI_Issend, which
// says so), what is left goes straight from the caller's memory, in one piece. Else a send must not
// wait for the receiver (two ranks that send to each other first would stand still), so it copies.
// The copy is made piece by piece into buffers that are kept for the
// next message, each piece is on its way while the next is copied, and pieces grow: the first is
// small, so that little of the copying is not overlapped. The first piece also probes: it completes
// (MPI_Issend) when the receiver has posted its receive, and a receiver posts the receives of all
// pieces at once. From then on waiting for it cannot be waiting for anything else, and what is left
// goes straight from the caller's memory. Who has sent need not wait: the channel's thread drives
// what is unfinished.
//
// Memory of GPUs, where the library takes pointers to it. The head lies in host memory; the pieces
// are copied into buffers on the GPU, and nothing goes straight from the caller's memory, which
// another process may not be able to open (cuda/rank_gpu.hpp).
//
// Tags. [type 2 bits | group 12 to 15 bits | user's tag 14 bits], and for pieces
// [type | number of the message], so that pieces of two messages never mix, whoever receives them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/mpi/environment.hpp"
#include "cluster/mpi/message_memory.hpp"
#include "cluster/threads/world.hpp"

namespace hetsgd::mpi {

using threads::Room;
using threads::World;

// How MPI tags are divided among those who use them.
class Tags {
 public:
  static constexpr int kUserBits = 14;
  static constexpr int kUserTags = 1 << kUserBits;

  // Errors: device, the library has too few tags.
  Tags();
  int groups() const { return (1 << (bits_ - 2 - kUserBits)) - 2; }
  int message(int group, int tag) const { return tag_of(0, group, tag); }
  int collective(int group, int tag) const { return tag_of(1, group, tag); }
  // An answer's number tells whose it is, a request's which service's.
  int request(int service) const { return tag_of(2, 0, service); }
  int answer(int caller) const { return tag_of(2, 1, caller); }
  int exchange(int group, int tag) const { return tag_of(2, 2 + group, tag); }
  int piece(std::uint32_t message) const {
    return static_cast<int>(3U << (bits_ - 2) | (message & ((1U << (bits_ - 2)) - 1)));
  }

 private:
  int tag_of(int type, int group, int tag) const {
    return type << (bits_ - 2) | group << kUserBits | tag;
  }
  int bits_ = 31;
};

// True: the request is complete.
bool test(MPI_Request& request, MPI_Status* status = MPI_STATUS_IGNORE);

// Buffers on their way. Outlives the run: a message that nobody receives stays on its way.
class Sends {
 public:
  static Sends& get();
  struct Buffer {
    MPI_Request request = MPI_REQUEST_NULL;
    std::size_t capacity = 0;
    std::byte* data = nullptr;  // `host`, or memory of the rank's GPU
    std::unique_ptr<std::byte[]> host;
  };
  // gpu: null for host memory.
  std::unique_ptr<Buffer> take(std::size_t bytes, cuda::ExchangeMemory* gpu = nullptr);
  // Keeps the buffer until its request is complete.
  void watch(std::unique_ptr<Buffer> buffer);
  // Called when something is unfinished that was not before. Once, before the first send.
  void on_unfinished(std::function<void()> tell) { tell_ = std::move(tell); }
  // Looks after at most `count` that were unfinished; true: some have finished.
  bool reap(std::size_t count);
  bool idle() const { return unfinished_ == 0; }

 private:
  void give(std::unique_ptr<Buffer> buffer);

  std::function<void()> tell_;
  std::mutex mutex_;  // guards all below
  std::vector<std::unique_ptr<Buffer>> on_their_way_;
  std::size_t next_ = 0;                                              // to look after
  using Free = std::array<std::vector<std::unique_ptr<Buffer>>, 32>;  // by size class
  Free free_, free_on_gpu_;
  std::atomic<std::size_t> unfinished_ = 0;
};

// What stands at the front of a head.
struct HeadInfo {
  std::uint64_t bytes = 0;  // of the whole message
  std::uint32_t number = 0;
  std::int32_t kind = 0;  // Traffic
};
inline constexpr std::size_t kHeadData = 4000;
inline constexpr std::size_t kHeadBytes = sizeof(HeadInfo) + kHeadData;

class Transport {
 public:
  // quiet: true when, after a failure, no process of any rank receives any more.
  Transport(MPI_Comm comm, World& world, int rank, const std::atomic<bool>& quiet)
      : comm_(comm), world_(world), rank_(rank), quiet_(quiet) {}

  World& world() { return world_; }
  const Tags& tags() const { return tags_; }
  int rank() const { return rank_; }  // in the world, as all ranks here

  // The parts, one after the other, are one message; in host memory, or complete in that of `gpu`.
  void send(int to, int tag, std::span<const std::span<const std::byte>> parts, Traffic kind,
            cuda::ExchangeMemory* gpu = nullptr);
  bool poll(int from, int tag);
  // Processes that have receives posted.
  bool still_receives() const { return receivers_ > 0; }

 private:
  friend class HeadReceive;
  friend class Requests;
  class Reader;
  void send_pieces(int to, int tag, Reader& reader, std::size_t bytes);
  // Around the time in which a process has receives posted. The run is aborted: unwinds.
  void begin_receiving();
  void end_receiving() { --receivers_; }

  const MPI_Comm comm_;
  World& world_;
  const int rank_;
  const std::atomic<bool>& quiet_;
  const Tags tags_;
  std::atomic<std::uint32_t> sent_ = 0;
  std::atomic<int> receivers_ = 0;
};

// The receive of a message's head. On the stack of its process.
class HeadReceive final : public threads::Poll {
 public:
  // from: kAnySource too. what: for reports.
  HeadReceive(Transport& transport, int from, int tag, std::string (*what)(int from, int tag));
  ~HeadReceive();
  HeadReceive(const HeadReceive&) = delete;
  HeadReceive& operator=(const HeadReceive&) = delete;

  bool done() override;
  void cancel() override;
  std::string describe() const override { return what_(from_, tag_); }

  // When done:
  int source() const { return status_.MPI_SOURCE; }
  HeadInfo info() const;
  std::span<const std::byte> data() const;  // the message's first bytes
  // The message, whose length the caller knows, into the caller's memory.
  void take(std::span<std::byte> message);
  void take(const MessageMemory& message);
  // The bytes that come after the head.
  void take_rest(std::span<std::byte> rest);

 private:
  Transport& transport_;
  const int from_, tag_;
  std::string (*const what_)(int, int);
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPI_Status status_;
  bool open_ = false;
  alignas(64) std::array<std::byte, kHeadBytes> buffer_;
};

// Receives straight into a process's memory and sends straight out of it, until done. On the stack
// of the process.
class Requests final : public threads::Poll {
 public:
  Requests(Transport& transport, std::string what);
  // Waits like cancel(), if an exception leaves requests behind.
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // Exactly so many bytes must come (checked).
  void receive(int from, int tag, std::span<std::byte> data);
  // As many as come; `received`: how many, when done.
  void receive_up_to(int from, int tag, std::span<std::byte> data, std::size_t& received);
  void send(int to, int tag, std::span<const std::byte> data);
  void wait(Seconds Ledger::*account);

  bool done() override;
  void cancel() override;
  std::string describe() const override { return what_; }
  bool transfers() const override { return true; }

 private:
  struct Receive {
    MPI_Request request;
    int from;
    std::size_t bytes;
    std::size_t* received;  // any number up to `bytes` may come; null: exactly those
  };
  bool receives_done();
  bool sends_done();
  void check_received(const Receive& receive, int code, const MPI_Status& status) const;

  Transport& transport_;
  const std::string what_;
  std::vector<Receive> receives_;
  std::vector<MPI_Request> sends_;
  std::size_t received_ = 0, sent_ = 0;  // complete
  bool open_ = true;
};

}  // namespace hetsgd::mpi
