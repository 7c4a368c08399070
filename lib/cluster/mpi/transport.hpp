// Transport: the messages of one run, on a communicator of its own.
//
// Form of a message. A head of up to 4 KB, which MPI libraries send at once without a handshake:
// its size, its kind of traffic and the first bytes. The rest follows in one piece or in several.
// So a receiver knows what comes before it posts receives into the caller's memory. Every size is
// checked, and the head tells when the sender sent.
//
// Sending, by states of what is left of a long message:
//
//    head sent --(its receive was posted)--> direct: the rest in one piece, out of the caller's
//        |                                           memory; waits until it has left
//        | nobody waits yet
//        v
//    first piece copied and sent, by MPI_Issend
//        |
//        v          the first piece has not been matched
//    next piece ----------------------------------------> copied into a buffer, sent, not awaited
//        |      the first piece has been matched
//        +---------------------------------------------> direct: all that is left; waits
//
// The head of a long message is sent by MPI_Issend, which tells whether the receiver waits already.
// If so, the rest goes straight from the caller's memory, in one piece. Else a send must not wait
// for the receiver (two ranks that send to each other first would stand still), so it copies. The
// copy is made piece by piece into buffers that are kept for the next message. Each piece is in
// flight while the next is copied, and pieces grow: the first is small, so that little of the
// copying is not overlapped.
//
// The first piece also probes: it completes (MPI_Issend) when the receiver has posted its receive.
// A receiver that has the first piece posts the receives of all others at once. From then on
// waiting for it cannot be waiting for anything else, and the rest goes straight from the caller's
// memory. The sender does not wait for copied pieces: the channel's thread drives the unfinished
// ones (Sends).
//
// Receiving. A process posts a HeadReceive and polls it; then it takes the rest by Requests, out of
// one piece or of several, whichever the sender has chosen. The sender's choice shows in the length
// of the first piece.
//
// Memory of GPUs, where the library takes pointers to it. The head lies in host memory; the pieces
// are copied into buffers on the GPU, and nothing goes straight from the caller's memory. Another
// process may not be able to open that (cuda/rank_gpu.hpp).
//
// Aborts. MPI may write to a posted receive until it is complete or cancelled. It may read from
// memory that is being sent until the send is complete. So a process that unwinds cancels its
// receives. It keeps the memory of its direct sends until they are complete, until no rank receives
// any more (`quiet`), or until a limit of time. Copied pieces belong to Sends, which outlives the
// run.
//
// Lost workers (World::losing()). A message whose head has come is received to its end. A message
// that a receiver takes straight is sent to its end. So nobody waits for a process that has left.
// Messages that nobody has received are dropped when all processes have ended (drop_arrived).
//
// Tags. [type 2 bits | group 12 to 15 bits | user's tag 14 bits], and for pieces [type | number of
// the message]. So pieces of two messages never mix, whichever process receives them.
//    type 0   messages of Comm
//    type 1   collectives
//    type 2   "group" 0: requests, by service; 1: answers, by caller; 2 + g: sendrecv of group g
//    type 3   pieces
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
#include "cluster/realtime/waiting.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd::mpi {

using namespace realtime;

// How MPI tags are divided among their users. A value; all functions are pure after the
// constructor.
class Tags {
 public:
  // Tags of Comm, of collectives, of services and of callers lie in [0, kUserTags).
  static constexpr int kUserBits = 14;
  static constexpr int kUserTags = 1 << kUserBits;

  // Asks the library for its largest tag. Throws Error(device) if the library has too few tags.
  Tags();
  // Numbers of groups are below this. Two are less than the bits hold, as sendrecv puts requests
  // and answers before them.
  int groups() const { return (1 << (bits_ - 2 - kUserBits)) - 2; }
  // The tag of a message of Comm, and of one phase of a collective.
  int message(int group, int tag) const { return tag_of(0, group, tag); }
  int collective(int group, int tag) const { return tag_of(1, group, tag); }
  // The number of a request names its service, the number of an answer its caller.
  int request(int service) const { return tag_of(2, 0, service); }
  int answer(int caller) const { return tag_of(2, 1, caller); }
  // The tag of a sendrecv, which is matched apart from messages.
  int sendrecv(int group, int tag) const { return tag_of(2, 2 + group, tag); }
  // The tag of what follows the head of the sender's message of this number; numbers wrap where
  // the bits end.
  int piece(std::uint32_t message) const {
    return static_cast<int>(3U << (bits_ - 2) | (message & ((1U << (bits_ - 2)) - 1)));
  }

 private:
  int tag_of(int type, int group, int tag) const {
    return type << (bits_ - 2) | group << kUserBits | tag;
  }
  // The number of bits of a tag.
  int bits_ = 31;
};

// True: the request is complete, and null from then on. One call of MPI_Test, which also lets the
// library advance everything else. Throws Error(runtime) if MPI fails.
bool test(MPI_Request& request, MPI_Status* status = MPI_STATUS_IGNORE);

// Buffers in flight. There is one Sends per process, which outlives the runs, because a message
// that nobody receives stays in flight.
//
//             take()            MPI_Isend           watch()                 complete
//    free ------------> filled ------------> sent ----------> in flight  ------------> free
//                                                   reap() looks after it
//
// Thread-safe: processes take and watch, and a thread that reaps also finishes the sends of others.
class Sends {
 public:
  static Sends& get();
  // A buffer belongs to its holder between take() and watch(), otherwise to Sends.
  struct Buffer {
    MPI_Request request = MPI_REQUEST_NULL;
    // A power of 2: buffers are kept by size class.
    std::size_t capacity = 0;
    // `host`, or memory of the rank's GPU, which is never freed.
    std::byte* data = nullptr;
    std::unique_ptr<std::byte[]> host;
  };
  // A buffer of at least `bytes`. gpu: where it lies; null: in host memory. Throws Error(device) if
  // there is no memory.
  std::unique_ptr<Buffer> take(std::size_t bytes, cuda::ExchangeMemory* gpu = nullptr);
  // Keeps the buffer until its request is complete. Does not wait.
  void watch(std::unique_ptr<Buffer> buffer);
  // Called when something is unfinished that was not before. Set once, before the first send.
  void on_unfinished(std::function<void()> tell) { tell_ = std::move(tell); }
  // Tests at most `count` of the unfinished buffers, in turns; true: some have finished.
  bool reap(std::size_t count);
  bool idle() const { return unfinished_ == 0; }

 private:
  // Puts the buffer back among the free ones of its size. Mutex held.
  void give(std::unique_ptr<Buffer> buffer);

  std::function<void()> tell_;
  // Guards all below, but for the atomic.
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> on_their_way_;
  // Index of the buffer that reap() tests next.
  std::size_t next_ = 0;
  // By size class: the exponent of the capacity.
  using Free = std::array<std::vector<std::unique_ptr<Buffer>>, 32>;
  Free free_, free_on_gpu_;
  // The length of on_their_way_, for idle().
  std::atomic<std::size_t> unfinished_ = 0;
};

// The struct at the front of a head.
struct HeadInfo {
  // The length of the whole message, without this struct.
  std::uint64_t bytes = 0;
  // Numbers the messages of one sender: the tag of the pieces.
  std::uint32_t number = 0;
  // The kind, a value of Traffic.
  std::int32_t kind = 0;
};
// Bytes of the message that travel in its head, so that with HeadInfo it fits into a page.
inline constexpr std::size_t kHeadData = 4000;
inline constexpr std::size_t kHeadBytes = sizeof(HeadInfo) + kHeadData;

// Outlives the processes of its run. Thread-safe: MPI is initialised with MPI_THREAD_MULTIPLE, and
// the rest are atomics. Errors of MPI are Error(runtime) and abort the run of the process that
// meets them.
class Transport {
 public:
  // comm: the run's own. quiet: true when, after a failure, no process of any rank receives any
  // more.
  Transport(MPI_Comm comm, World& world, int rank, const std::atomic<bool>& quiet)
      : comm_(comm), world_(world), rank_(rank), quiet_(quiet) {}

  World& world() { return world_; }
  const Tags& tags() const { return tags_; }
  // This rank in the world, as all ranks in this file.
  int rank() const { return rank_; }

  // straight: from the caller's memory where the receiver waits; copied: never.
  enum class Sending { straight, copied };
  // The parts, one after the other, are one message; they lie in host memory, or all in that of
  // `gpu`. Returns when they may be reused. Blocks only while a receiver that waits takes the rest
  // straight; unwinds where the run is aborted then. The time is the caller's to count.
  void send(int to, int tag, std::span<const std::span<const std::byte>> parts, Traffic kind,
            cuda::ExchangeMemory* gpu = nullptr, Sending how = Sending::straight);
  // A message of this tag is here (from: kAnySource too). Its head has come, its pieces may not
  // have.
  bool poll(int from, int tag);
  // Some process has receives posted. Any thread.
  bool still_receives() const { return receivers_ > 0; }
  // When no process of this rank is left: receives and drops what has come. False: nothing had.
  bool drop_arrived();

 private:
  friend class HeadReceive;
  friend class Requests;
  class Reader;
  // Sends the rest of a message that nobody waits for: `bytes` bytes of the reader.
  void send_pieces(int to, int tag, Reader& reader, std::size_t bytes);
  // A process has MPI requests on memory of its own only between these two calls. If the run is
  // aborted already, begin_receiving() unwinds instead. So no receive is posted after the abort,
  // and once none is open, none ever will be. A loss of workers does not count: services go on.
  void begin_receiving();
  void end_receiving() { --receivers_; }

  const MPI_Comm comm_;
  World& world_;
  const int rank_;
  const std::atomic<bool>& quiet_;
  const Tags tags_;
  // Messages sent by this rank so far. The count numbers them.
  std::atomic<std::uint32_t> sent_ = 0;
  // HeadReceives and Requests that are open.
  std::atomic<int> receivers_ = 0;
};

// The receive of a message's head. On the stack of its process, or in its pending call: MPI writes
// to it while it is open, so it does not move.
//
//              done()                take...(), at most once
//    open -------------> complete ---------------------------> taken
//      | cancel(), or the destructor
//      +-------------> cancelled
class HeadReceive final : public Poll, NonCopyable {
 public:
  // Posts the receive. from: kAnySource too. what: makes the text for reports of a deadlock.
  // Unwinds where the run is aborted already.
  HeadReceive(Transport& transport, int from, int tag, std::string (*what)(int from, int tag));
  ~HeadReceive();

  // Tests the receive once. Never blocks.
  bool done() override;
  // Returns when MPI does not write to the buffer any more, or after a limit of time. True: a
  // message came meanwhile, which is lost with the run unless the caller takes it.
  bool cancel() override;
  std::string describe() const override { return what_(from_, tag_); }

  // When done:
  int source() const { return status_.MPI_SOURCE; }
  HeadInfo info() const;
  // The message's first bytes, kHeadData at most.
  std::span<const std::byte> data() const;
  // The message, whose length the caller knows and has checked, into the caller's memory: what came
  // with the head is copied, and what follows is received there. Blocks while the message is in
  // flight.
  void take(std::span<std::byte> message);
  void take(const MessageMemory& message);
  // The bytes that come after the head alone.
  void take_rest(std::span<std::byte> rest);

 private:
  Transport& transport_;
  const int from_, tag_;
  std::string (*const what_)(int, int);
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPI_Status status_;
  // MPI may write to the buffer.
  bool open_ = false;
  alignas(64) std::array<std::byte, kHeadBytes> buffer_;
};

// Receives straight into a process's memory and sends straight out of it, until done. On the stack
// of the process. The requests are posted one by one and then awaited together:
//
//                wait(): all complete
//    open ----------------------------------> closed
//      |  the run is aborted, or an exception
//      +----------------------------------> cancelled: receives are, sends are waited for
class Requests final : public Poll, NonCopyable {
 public:
  // what: for reports. Unwinds where the run is aborted already.
  Requests(Transport& transport, std::string what);
  // Aborts the run and waits like cancel(), if an exception leaves requests behind: their memory
  // belongs to the caller, which is about to free it.
  ~Requests();

  // Exactly data.size() bytes must come (checked when they have; the error names both ranks). More
  // than 1 GiB are several messages, as MPI counts in int.
  void receive(int from, int tag, std::span<std::byte> data);
  // Receives as many bytes as come, up to 1 GiB; `received`: their number, when done.
  void receive_up_to(int from, int tag, std::span<std::byte> data, std::size_t& received);
  // data must not change until done(). Split as by receive().
  void send(int to, int tag, std::span<const std::byte> data);
  // Returns when all are complete; the time is added to that account of the breakdown unless it is
  // null. An error aborts the run before it is thrown, so that the other ranks let go of this
  // memory.
  void wait(Seconds TimeBreakdown::*account);

  bool done() override;
  bool cancel() override;
  std::string describe() const override { return what_; }
  // The other side is there, so the waiting thread does not go to sleep soon, and a loss of workers
  // does not end the wait.
  bool transfers() const override { return true; }
  bool outlasts_loss() const override { return true; }

 private:
  struct Receive {
    MPI_Request request;
    int from;
    std::size_t bytes;
    // Number of bytes that came, where any number up to `bytes` may come; null: exactly `bytes`
    // must.
    std::size_t* received;
  };
  // Each looks at its requests in the order of their start, from the first that is not complete on.
  bool receives_done();
  bool sends_done();
  // Throws CheckFailure where the length is another one.
  void check_received(const Receive& receive, int code, const MPI_Status& status) const;

  Transport& transport_;
  const std::string what_;
  std::vector<Receive> receives_;
  std::vector<MPI_Request> sends_;
  // How many of each are complete.
  std::size_t received_ = 0, sent_ = 0;
  bool open_ = true;
};

}  // namespace hetsgd::mpi
