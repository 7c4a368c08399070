// Comm: tagged messages and collectives of one group of workers.
//
// All calls block and cost time on every cluster. A Comm belongs to one rank; each rank of the
// group has its own. Collectives are called by every rank of the group in the same order. Messages
// between one pair of ranks with one tag arrive in the order sent.
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
#include <span>
#include <type_traits>

#include "cluster/ledger.hpp"
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

inline constexpr int kAnySource = -1;
inline constexpr std::size_t kExchangePiece = std::size_t{256} << 10;  // bytes of one message
inline constexpr std::size_t kExchangeAhead = 8;                       // messages on their way

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

struct Envelope {
  int source = 0;
  std::size_t bytes = 0;
};

class Comm {
 public:
  virtual ~Comm() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // --- messages ----------------------------------------------------------------------------------
  // Returns when `data` may be reused (it has left this rank's link); does not wait for the
  // receiver.
  // Tags are >= 0 and the caller's own to choose.
  template <class T>
  void send(int to, int tag, std::span<const T> data, Traffic kind = Traffic::control) {
    send_bytes(to, tag, std::as_bytes(data), kind);
  }
  // Blocks until a message with this tag from `from` (or kAnySource: the earliest arrival, ties
  // lowest rank) is here. It must have exactly data.size() elements (checked).
  template <class T>
  Envelope receive(int from, int tag, std::span<T> data) {
    return receive_bytes(from, tag, std::as_writable_bytes(data));
  }
  // Sends `out` to `peer` and receives `in` from it, which calls exchange as well, with this tag
  // and the lengths swapped, which may be 0; all four vectors in host memory, or all in that of
  // devices. Exchanges pair up with exchanges alone, in the order of the calls.
  template <class T>
  void exchange(int peer, int tag, std::span<const T> out, std::span<T> in,
                Traffic kind = Traffic::control) {
    exchange_bytes(peer, tag, std::as_bytes(out), std::as_writable_bytes(in), kind);
  }
  // True if receive(from, tag) would return at once. Costs nothing.
  virtual bool poll(int from, int tag) = 0;

  // --- collectives -------------------------------------------------------------------------------
  // In place: every rank ends with the reduction over all ranks. Any length, 0 included.
  template <class T>
  void all_reduce(std::span<T> data, ReduceOp op = ReduceOp::sum, Traffic kind = Traffic::control) {
    static_assert(element_of<T>() != Element::byte, "only float, double and int64 can be reduced");
    all_reduce_raw(data.data(), data.size(), element_of<T>(), op, kind);
  }
  template <class T>
  void broadcast(std::span<T> data, int root, Traffic kind = Traffic::control) {
    broadcast_raw(data.data(), data.size() * sizeof(T), root, kind);
  }
  // all: [size() * mine.size()], rank r's part at r * mine.size().
  template <class T>
  void all_gather(std::span<const T> mine, std::span<T> all, Traffic kind = Traffic::control) {
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
  virtual void barrier() = 0;

  // A new group of the ranks with the same colour (>= 0), ordered by (key, rank). A negative colour
  // joins none and gets null. Collective. split(0, rank()) duplicates the group, for a companion's
  // own collectives.
  virtual std::unique_ptr<Comm> split(int color, int key) = 0;

  using Block = hetsgd::Block;
  Block block_of(int rank, std::size_t n) const { return hetsgd::block_of(rank, size(), n); }

  // --- what a cluster implements -----------------------------------------------------------------
  virtual void send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) = 0;
  virtual Envelope receive_bytes(int from, int tag, std::span<std::byte> data) = 0;
  // As messages of kExchangePiece bytes, kExchangeAhead of them on their way at a time: where
  // messages travel, their latencies overlap, and the time is that of one message as long as
  // kExchangeAhead pieces take longer than a latency.
  virtual void exchange_bytes(int peer, int tag, std::span<const std::byte> out,
                              std::span<std::byte> in, Traffic kind);
  virtual void all_reduce_raw(void* data, std::size_t count, Element element, ReduceOp op,
                              Traffic kind) = 0;
  virtual void broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) = 0;
  virtual void all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) = 0;
  using Maker = std::function<std::shared_ptr<const void>(const void* all)>;
  // Here: every rank gathers for itself and makes its own.
  virtual std::shared_ptr<const void> agree_raw(const void* mine, std::size_t bytes,
                                                const Maker& make, Traffic kind);
  virtual void reduce_scatter_raw(void* data, std::size_t count, Element element, ReduceOp op,
                                  Traffic kind) = 0;
};

}  // namespace hetsgd
