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
// are in elements; broadcast, all_gather and messages move bytes and take any trivially copyable
// T. `kind` says what the bytes are, for the time breakdown and for --charge. Errors: check failure
// where ranks disagree (collective_call.hpp) or name a rank or tag that cannot be; every call
// throws a cluster-internal exception when the run fails elsewhere, which must pass through.
//
// Rank order: all_reduce and reduce_scatter add the contributions in the order of ranks,
// ((x0+x1)+x2)+..., on every cluster, so the same inputs give the same bits everywhere. Two ways of
// adding between GPUs alone are excepted, AllReduce::nccl and AllReduce::tree (cluster.hpp): their
// order is another one, always the same on one machine and with the same bits on all ranks; the
// sums differ from those in rank order by rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>

#include "cluster/all_to_all.hpp"
#include "cluster/worker_account.hpp"
#include "core/units.hpp"

namespace hetsgd {

enum class ReduceOp { sum, max, min };
enum class Element { float32, float64, int64, byte };

template <class T>
constexpr Element element_of() {
  if constexpr (std::is_same_v<T, float>) return Element::float32;
  if constexpr (std::is_same_v<T, double>) return Element::float64;
  if constexpr (std::is_same_v<T, std::int64_t>) return Element::int64;
  return Element::byte;  // copied, never reduced
}

// For `from` of receive and poll: any rank. The two below it: how sendrecv cuts what it moves where
// a cluster has no better way (sendrecv_bytes).
inline constexpr int kAnySource = -1;
inline constexpr std::size_t kSendrecvPiece = std::size_t{256} << 10;  // bytes of one message
inline constexpr std::size_t kSendrecvAhead = 8;                       // messages on their way

// The slice of [0, n) that `rank` of `size` owns in reduce_scatter: sizes differ by at most one,
// larger first.
struct Block {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};
inline Block block_of(int rank, int size, std::size_t n) {
  const auto p = static_cast<std::size_t>(size), r = static_cast<std::size_t>(rank);
  const std::size_t base = n / p, extra = n % p;
  const std::size_t begin = r * base + (r < extra ? r : extra);
  return {begin, begin + base + (r < extra ? 1 : 0)};
}

// Errors: check, the rank is none of a group of `size`.
void check_rank(int rank, int size);

// Of a message that was received: from whom (the rank in this group), and its length.
struct Envelope {
  int source = 0;
  std::size_t bytes = 0;
};

class Pending;
class PendingCall;
struct CollectiveRequest;

class Comm {
 public:
  virtual ~Comm() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // --- messages ----------------------------------------------------------------------------------
  // Returns when `data` may be reused (it has left this rank's link); does not wait for the
  // receiver. A message to the own rank is allowed. Tags are >= 0 and the caller's own to choose.
  template <class T>
  void send(int to, int tag, std::span<const T> data, Traffic kind = Traffic::control) {
    send_bytes(to, tag, std::as_bytes(data), kind);
  }
  // The same of elements that the caller may write: T of the form above is not deduced from them.
  template <std::ranges::contiguous_range Mutable>
  requires std::is_same_v<Mutable, std::span<std::ranges::range_value_t<Mutable>>>
  void send(int to, int tag, Mutable data, Traffic kind = Traffic::control) {
    send_bytes(to, tag, std::as_bytes(data), kind);
  }
  // The same without waiting for anything: copies `data` and returns at once. The message takes its
  // turn on this rank's link while the caller goes on; with those of send() it keeps the order of
  // the calls. For a rank that sends to many before it looks at what it gets.
  template <class T>
  void post(int to, int tag, std::span<const T> data, Traffic kind = Traffic::control) {
    post_bytes(to, tag, std::as_bytes(data), kind);
  }
  template <std::ranges::contiguous_range Mutable>
  requires std::is_same_v<Mutable, std::span<std::ranges::range_value_t<Mutable>>>
  void post(int to, int tag, Mutable data, Traffic kind = Traffic::control) {
    post_bytes(to, tag, std::as_bytes(data), kind);
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
  // peer and tag. A tag that is used by sendrecv is not used by send and receive: whether they
  // would meet depends on the cluster. Cannot deadlock as a send that waits for its receiver could.
  template <class T>
  void sendrecv(int peer, int tag, std::span<const std::type_identity_t<T>> out, std::span<T> in,
                Traffic kind = Traffic::control) {
    sendrecv_bytes(peer, tag, std::as_bytes(out), std::as_writable_bytes(in), kind);
  }
  // True if receive(from, tag) would return at once. Costs nothing, so a loop around it must make a
  // call that lets time pass: in sim nothing can arrive otherwise.
  virtual bool poll(int from, int tag) = 0;

  // --- collectives -------------------------------------------------------------------------------
  // In place: every rank ends with the reduction over all ranks. Any length, 0 included.
  template <class T>
  void all_reduce(std::span<T> data, ReduceOp op = ReduceOp::sum, Traffic kind = Traffic::control) {
    static_assert(element_of<T>() != Element::byte, "only float, double and int64 can be reduced");
    all_reduce_raw(data.data(), data.size(), element_of<T>(), op, kind);
  }
  // Every rank ends with the root's data; all ranks name the same root and length.
  template <class T>
  void broadcast(std::span<T> data, int root, Traffic kind = Traffic::control) {
    broadcast_raw(data.data(), data.size() * sizeof(T), root, kind);
  }
  // all: [size() * mine.size()], rank r's part at r * mine.size().
  template <class T>
  void all_gather(std::span<const std::type_identity_t<T>> mine, std::span<T> all,
                  Traffic kind = Traffic::control) {
    all_gather_raw(mine.data(), mine.size() * sizeof(T), all.data(), kind);
  }
  // What all ranks make of one T of each: make(all), all[r] being rank r's. It must be the same on
  // every rank, and must not block. Costs an all_gather. The result is for reading only: ranks of
  // one process may share it, and then one of them makes it for all. (P simulated ranks that each
  // had P numbers of their own would take P^2 of time and memory.)
  template <class T, class Make>
  auto agree(const T& mine, const Make& make, Traffic kind = Traffic::control) {
    static_assert(std::is_trivially_copyable_v<T>);
    using Made = std::invoke_result_t<const Make&, std::span<const T>>;
    const auto p = static_cast<std::size_t>(size());
    const Maker maker = [&](const void* all) -> std::shared_ptr<const void> {
      return std::make_shared<const Made>(make(std::span(static_cast<const T*>(all), p)));
    };
    return std::static_pointer_cast<const Made>(agree_raw(&mine, sizeof(T), maker, kind));
  }
  // In place on data [n]: afterwards this rank's block, block_of(rank, n), holds the reduction; the
  // rest is unspecified.
  template <class T>
  void reduce_scatter(std::span<T> data, ReduceOp op = ReduceOp::sum,
                      Traffic kind = Traffic::control) {
    static_assert(element_of<T>() != Element::byte, "only float, double and int64 can be reduced");
    reduce_scatter_raw(data.data(), data.size(), element_of<T>(), op, kind);
  }
  // Rank r gets send_counts[r] elements of `send`, and receive_counts[r] of `receive` come from it:
  // lengths per pair, 0 included, parts one after the other in the order of ranks (as
  // MPI_Alltoallv). What a rank sends to another is what that one expects (checked: the error names
  // both).
  template <class T>
  void all_to_all(std::span<const std::type_identity_t<T>> send,
                  std::span<const std::size_t> send_counts, std::span<T> receive,
                  std::span<const std::size_t> receive_counts, Traffic kind = Traffic::control) {
    const AllToAll mine = all_to_all_parts(send, send_counts, receive, receive_counts);
    check_parts(mine, rank(), size());
    all_to_all_raw(mine, kind);
  }
  // Returns when every rank of the group has called it.
  virtual void barrier() = 0;
  // A collective that goes on while the caller computes: pending.hpp.
  Pending start(const CollectiveRequest& request);

  // A new group of the ranks with the same colour (>= 0), ordered by (key, rank). A negative colour
  // joins none and gets null. Collective. split(0, rank()) duplicates the group, for a background
  // task's own collectives.
  virtual std::unique_ptr<Comm> split(int color, int key) = 0;

  using Block = hetsgd::Block;
  Block block_of(int rank, std::size_t n) const { return hetsgd::block_of(rank, size(), n); }

  // --- what a cluster implements -----------------------------------------------------------------
  // Untyped forms of the above, with lengths in bytes unless `element` says otherwise. Callers have
  // checked the types and, for all_to_all, the rank's own counts; agreement between ranks is
  // checked below, as only the cluster sees the others.
  virtual void send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) = 0;
  virtual void post_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) = 0;
  virtual Envelope receive_bytes(int from, int tag, std::span<std::byte> data) = 0;
  // Here: as messages of kSendrecvPiece bytes, kSendrecvAhead of them on their way at a time: where
  // messages travel, their latencies overlap, and the time is that of one message as long as
  // kSendrecvAhead pieces take longer than a latency.
  virtual void sendrecv_bytes(int peer, int tag, std::span<const std::byte> out,
                              std::span<std::byte> in, Traffic kind);
  virtual void all_reduce_raw(void* data, std::size_t count, Element element, ReduceOp op,
                              Traffic kind) = 0;
  virtual void broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) = 0;
  virtual void all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) = 0;
  // all: size() values of the call's length, in rank order; valid during the call.
  using Maker = std::function<std::shared_ptr<const void>(const void* all)>;
  // Here: every rank gathers for itself and makes its own.
  virtual std::shared_ptr<const void> agree_raw(const void* mine, std::size_t bytes,
                                                const Maker& make, Traffic kind);
  virtual void reduce_scatter_raw(void* data, std::size_t count, Element element, ReduceOp op,
                                  Traffic kind) = 0;
  virtual void all_to_all_raw(const AllToAll& mine, Traffic kind) = 0;
  // In a group of several ranks.
  virtual std::unique_ptr<PendingCall> start_raw(const CollectiveRequest& request) = 0;
};

}  // namespace hetsgd
