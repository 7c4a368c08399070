// Comm: tagged messages and collectives of one group of workers.
//
// All calls block and cost time on every cluster. A Comm belongs to one rank; each rank of the
// group has its own. Collectives are called by every rank of the group in the same order. Messages
// between one pair of ranks with one tag arrive in the order sent.
//
// Three kinds of calls on one Comm are matched apart: messages by source and tag, blocking
// collectives by their order, and calls that are started (pending.hpp) by theirs. One process of a
// rank makes collectives on a Comm; a background task takes one of its own by split().
//
// Buffers are the caller's and may lie in host memory or in that of the caller's device. Lengths
// are in elements; broadcast, all_gather and messages move bytes and take any trivially copyable T.
// `kind` says what the bytes are, for the time breakdown and for --charge. Throws CheckFailure if
// ranks disagree (collective_call.hpp) or name an impossible rank or tag. When the run fails
// elsewhere every call throws a cluster-internal exception, which must pass through.
//
// Rank order: all_reduce and reduce_scatter add the contributions in the order of ranks,
// ((x0+x1)+x2)+..., on every cluster, so the same inputs give the same bits everywhere.
// AllReduce::nccl and AllReduce::tree (cluster.hpp), two ways of adding between GPUs alone, are
// exceptions. Their order is another one, always the same on one machine and with the same bits on
// all ranks. Their sums differ from those in rank order by rounding.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "cluster/collective_call.hpp"
#include "cluster/pending.hpp"

namespace hetsgd {

// Value of `from` in receive and poll that means any rank. The two constants below it say how
// sendrecv_bytes cuts its data where a cluster has no better way.
inline constexpr int kAnySource = -1;
inline constexpr std::size_t kSendrecvPiece = std::size_t{256} << 10;  // bytes of one message
inline constexpr std::size_t kSendrecvAhead = 8;                       // messages in flight

// Throws CheckFailure if a group of `size` has no such rank.
void check_rank(int rank, int size);

// Source (a rank in this group) and length of a received message.
struct Envelope {
  int source = 0;
  std::size_t bytes = 0;
};

// A rank's argument to agree, and its result.
struct AgreePart {
  // all: size() values of the call's length, in rank order; valid during the call.
  using Maker = std::function<std::shared_ptr<const void>(const void* all)>;
  const Maker* make = nullptr;
  std::shared_ptr<const void> made;
};

class CommNotes;

class Comm {
 public:
  virtual ~Comm() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // --- messages ----------------------------------------------------------------------------------
  // Sends the elements of a span or a vector. Returns when `data` may be reused (it has left this
  // rank's link); does not wait for the receiver. A message to the own rank is allowed. Tags are
  // >= 0 and the caller's own to choose.
  template <std::ranges::contiguous_range Data>
  void send(int to, int tag, const Data& data, Traffic kind = Traffic::control) {
    send_bytes(to, tag, std::as_bytes(std::span(data)), kind, false);
  }
  // The same without waiting for anything: copies `data` and returns at once. The message takes its
  // turn on this rank's link while the caller goes on; with those of send() it keeps the order of
  // the calls. It suits a rank that sends to many before it receives.
  template <std::ranges::contiguous_range Data>
  void post(int to, int tag, const Data& data, Traffic kind = Traffic::control) {
    send_bytes(to, tag, std::as_bytes(std::span(data)), kind, true);
  }
  // Blocks until a message with this tag from `from` (or kAnySource: the earliest arrival, ties
  // lowest rank) is here. It must have exactly data.size() elements (checked).
  template <class T>
  Envelope receive(int from, int tag, std::span<T> data) {
    return receive_bytes(from, tag, std::as_writable_bytes(data));
  }
  // Sends `out` to `peer` and receives `in` from it, which calls sendrecv as well, with this tag
  // and the lengths swapped, which may be 0. The four vectors of the two ranks lie all in host
  // memory, or all in that of devices. Two sendrecv calls pair up in the order of the calls of this
  // peer and tag. A tag that sendrecv uses must not be used by send and receive: whether they would
  // meet depends on the cluster. A sendrecv cannot deadlock as a send that waits for its receiver
  // could.
  template <class T>
  void sendrecv(int peer, int tag, std::span<const std::type_identity_t<T>> out, std::span<T> in,
                Traffic kind = Traffic::control) {
    sendrecv_bytes(peer, tag, std::as_bytes(out), std::as_writable_bytes(in), kind);
  }
  // True if receive(from, tag) would return at once. Costs nothing, so a loop around it must make a
  // call that lets time pass: in sim nothing can arrive otherwise.
  virtual bool poll(int from, int tag) = 0;

  // --- collectives -------------------------------------------------------------------------------
  // Each but split and agree is `make` of the request of the same name (collective_call.hpp).

  // In place: every rank ends with the reduction over all ranks. Any length, 0 included.
  template <class T>
  void all_reduce(std::span<T> data, ReduceOp op = ReduceOp::sum, Traffic kind = Traffic::control) {
    make(hetsgd::all_reduce(data, op, kind));
  }
  // Every rank ends with the root's data; all ranks name the same root and length.
  template <class T>
  void broadcast(std::span<T> data, int root, Traffic kind = Traffic::control) {
    make(hetsgd::broadcast(data, root, kind));
  }
  // all: [size() * mine.size()], rank r's part at r * mine.size().
  template <class T>
  void all_gather(std::span<const std::type_identity_t<T>> mine, std::span<T> all,
                  Traffic kind = Traffic::control) {
    make(hetsgd::all_gather<T>(mine, all, kind));
  }
  // Returns make(all), where all[r] is rank r's `mine`. The result must be the same on every rank,
  // and `make` must not block. Costs an all_gather. The result is for reading only, because ranks
  // of one process may share it: one of them then makes it for all. (If each of P simulated ranks
  // had P numbers of its own, this would take P^2 of time and memory.)
  template <class T, class Make>
  auto agree(const T& mine, const Make& make_of_all, Traffic kind = Traffic::control) {
    static_assert(std::is_trivially_copyable_v<T>);
    using Made = std::invoke_result_t<const Make&, std::span<const T>>;
    const AgreePart::Maker maker = [&, p = static_cast<std::size_t>(size())](const void* all) {
      return std::make_shared<const Made>(make_of_all(std::span(static_cast<const T*>(all), p)));
    };
    AgreePart part{.make = &maker, .made = nullptr};
    make({.call = {.collective = Collective::agree, .count = sizeof(T), .kind = kind},
          .in = &mine,
          .out = &part});
    return std::static_pointer_cast<const Made>(std::move(part.made));
  }
  // In place on data [n]: afterwards this rank's block, block_of(rank, n), holds the reduction; the
  // rest is unspecified.
  template <class T>
  void reduce_scatter(std::span<T> data, ReduceOp op = ReduceOp::sum,
                      Traffic kind = Traffic::control) {
    make(hetsgd::reduce_scatter(data, op, kind));
  }
  // Rank r gets send_counts[r] elements of `send`, and receive_counts[r] of `receive` come from it:
  // Each pair has its own length, 0 included. Parts lie one after the other in the order of ranks
  // (as MPI_Alltoallv). The length that a rank sends to another must be the one that the other
  // expects (checked: the error names both).
  template <class T>
  void all_to_all(std::span<const std::type_identity_t<T>> send,
                  std::span<const std::size_t> send_counts, std::span<T> receive,
                  std::span<const std::size_t> receive_counts, Traffic kind = Traffic::control) {
    make(hetsgd::all_to_all<T>(send, send_counts, receive, receive_counts, kind));
  }
  // Returns when every rank of the group has called it.
  void barrier() { make({}); }
  // A new group of the ranks with the same colour (>= 0), ordered by (key, rank). A negative colour
  // joins none and gets null. Collective. split(0, rank()) duplicates the group, for a background
  // task's own collectives.
  std::unique_ptr<Comm> split(int color, int key);

  // Makes the call that `request` describes. Returns when it is complete on this rank.
  void make(const CollectiveRequest& request);
  // Starts a call that goes on while the caller computes (pending.hpp). Throws CheckFailure for a
  // call that cannot be started (barrier, split, agree).
  Pending start(const CollectiveRequest& request);

  using Block = hetsgd::Block;
  Block block_of(int rank, std::size_t n) const { return hetsgd::block_of(rank, size(), n); }

  // --- what a cluster implements -----------------------------------------------------------------
  // The calls of above, which note them (trace/noted_calls.cpp). Lengths of messages are in bytes.
  // The rank's own request has been checked (make, start); agreement between ranks is checked
  // below, as only the cluster sees the others. posts: it is post().
  virtual void send_raw(int to, int tag, std::span<const std::byte> data, Traffic kind,
                        bool posts) = 0;
  virtual Envelope receive_raw(int from, int tag, std::span<std::byte> data) = 0;
  // This implementation sends messages of kSendrecvPiece bytes, with kSendrecvAhead of them in
  // flight at a time. Where messages travel, their latencies overlap: the time is that of one
  // message as long as kSendrecvAhead pieces take longer than a latency.
  virtual void sendrecv_raw(int peer, int tag, std::span<const std::byte> out,
                            std::span<std::byte> in, Traffic kind);
  virtual void make_raw(const CollectiveRequest& request) = 0;
  // Called only in a group of several ranks.
  virtual std::unique_ptr<PendingCall> start_raw(const CollectiveRequest& request) = 0;

 protected:
  // Implements agree where ranks share no memory: every rank gathers all values and makes its own
  // result.
  void agree_by_gathering(const CollectiveRequest& request);

 private:
  friend class Endpoint;
  void send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind, bool posts);
  Envelope receive_bytes(int from, int tag, std::span<std::byte> data);
  void sendrecv_bytes(int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                      Traffic kind);
  // Checks what a rank can know of its own request.
  void check_request(const CollectiveRequest& request) const;

  std::shared_ptr<CommNotes> notes_;  // null: calls are not noted
};

// A rank's argument to split, and its result.
struct SplitPart {
  SplitChoice choice;
  std::unique_ptr<Comm> comm;  // null: none
};

}  // namespace hetsgd
