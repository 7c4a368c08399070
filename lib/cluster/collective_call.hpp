// A collective as a value: what a rank asks for, and the memory that it brings.
//
//   Comm::all_reduce(...), split(...), ...        all_reduce(...), ... (below)
//        |  fills                                    |  fills
//        v                                           v
//   CollectiveRequest { CollectiveCall call; in, out, parts }
//        |  Comm::make(request): blocks              |  Comm::start(request): goes on by itself
//        v                                           v
//   the cluster: counts traffic_of(), compares the calls of the ranks, moves the data
//
// The clusters compare the calls of all ranks, so a mismatch is a check failure that names both,
// not a hang or a wrong result. (Ranks that disagree on a length would otherwise overwrite memory,
// and those that disagree on the collective would wait for each other.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cluster/worker_account.hpp"
#include "core/rank_index.hpp"

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
std::size_t element_bytes(Element element);

// The slice of [0, n) that `rank` of `size` owns in reduce_scatter: sizes differ by at most one,
// larger first.
struct Block {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};
inline Block block_of(int rank, int size, std::size_t n) {
  const std::size_t p = at(size), r = at(rank);
  const std::size_t base = n / p, extra = n % p;
  const std::size_t begin = r * base + (r < extra ? r : extra);
  return {begin, begin + base + (r < extra ? 1 : 0)};
}
// The slice of `count` elements that is `rank`'s to move in a collective over memory that all
// reach: whole cache lines, so that no two ranks write to one. The slices of all ranks follow each
// other and cover everything; with fewer lines than ranks some are empty. (Not the blocks that
// reduce_scatter hands out: those are block_of.)
Block whole_lines(int rank, int size, std::size_t count, Element element);

// The collectives of Comm, and while_paused_together, which all ranks enter as well.
enum class Collective : std::uint8_t {
  all_reduce,
  broadcast,
  all_gather,
  agree,
  reduce_scatter,
  all_to_all,
  barrier,
  split,
  while_paused_together,
};

std::string_view collective_name(Collective collective);  // "all_reduce"

// The ranks' calls must be equal in every field, and fields that a collective does not use keep
// their defaults. The lengths of an all_to_all differ per rank and are compared apart
// (check_same_parts). A call travels between MPI ranks as its bytes in memory.
struct CollectiveCall {
  Collective collective = Collective::barrier;
  // Length in elements. Exceptions: bytes for broadcast, all_gather and agree; the size of one
  // element in bytes for all_to_all.
  std::size_t count = 0;
  Element element = Element::byte;  // byte where nothing is reduced
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // broadcast
  Traffic kind = Traffic::control;

  std::size_t bytes() const { return count * element_bytes(element); }
  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

// Describes the call in words, with the fields that matter for the collective.
std::string describe(const CollectiveCall& call);  // all_reduce (sum) of 100 float32 as gradients

// Throws CheckFailure unless the two calls agree: "ranks 0 and 2 differ in one collective: rank 0
// calls all_reduce (sum) of 100 float32 as gradients, rank 2 calls barrier".
void check_same_call(int rank_a, const CollectiveCall& a, int rank_b, const CollectiveCall& b);

// The memory of one rank in an all_to_all: one part for each rank and room for one part from each,
// with a length per pair.
//
//   rank r's send     [ part for 0 | part for 1 | ... | part for r | ... ]   send_counts[to]
//   rank r's receive  [ room for 0 | room for 1 | ... | room for r | ... ]   receive_counts[from]
//
// The part of rank a for rank b goes to the room for a at b; a part for oneself is copied as well.
//
// The parts lie one after the other, in the order of ranks, in `send` and in `receive`; `width`
// bytes are one element. An AllToAll refers to the caller's memory: the counts, too, must stay
// until the call is complete. check_parts() says whether the fields fit together; the members below
// rely on it.
struct AllToAll {
  const void* send = nullptr;
  std::size_t send_elements = 0;
  std::span<const std::size_t> send_counts = {};  // elements, by rank
  void* receive = nullptr;
  std::size_t receive_elements = 0;
  std::span<const std::size_t> receive_counts = {};
  std::size_t width = 1;

  static std::size_t sum(std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  // The same parts in other memory.
  AllToAll in_memory(const void* other_send, void* other_receive) const {
    AllToAll moved = *this;
    moved.send = other_send;
    moved.receive = other_receive;
    return moved;
  }
  std::size_t send_bytes() const { return width * send_elements; }
  std::size_t receive_bytes() const { return width * receive_elements; }
  // The part for rank `to`, and the room for that of rank `from`. Each adds up the counts before
  // it, O(ranks): a loop over all ranks keeps a running offset instead, as move_parts() does.
  std::span<const std::byte> part_for(int to) const {
    return {static_cast<const std::byte*>(send) + width * sum(send_counts.first(at(to))),
            width * send_counts[at(to)]};
  }
  std::span<std::byte> room_for(int from) const {
    return {static_cast<std::byte*>(receive) + width * sum(receive_counts.first(at(from))),
            width * receive_counts[at(from)]};
  }
  // Bytes sent to other ranks and received from them. The part that a rank keeps for itself is not
  // counted.
  std::size_t bytes_out(int rank) const { return send_bytes() - width * send_counts[at(rank)]; }
  std::size_t bytes_in(int rank) const {
    return receive_bytes() - width * receive_counts[at(rank)];
  }
};

// Throws CheckFailure unless rank `rank` of `size` may bring this: as many counts as ranks, which
// add up to the elements that are there, and one length for what it gives to itself.
void check_parts(const AllToAll& mine, int rank, int size);
// Throws CheckFailure unless the bytes that rank `from` sends to rank `to` are those that `to`
// expects.
void check_same_part(int from, std::size_t sent, int to, std::size_t expected);
// The same for both directions between two ranks, where one side sees the other's AllToAll. Both
// have passed check_parts().
void check_same_parts(int rank_a, const AllToAll& a, int rank_b, const AllToAll& b);

// In one address space: gives ranks [begin, end) what all send to them. all[r]: rank r's AllToAll,
// whose parts agree in pairs (checked by the caller). Threads may do disjoint ranges at once: each
// writes to the rooms of its own receivers only.
void move_parts(std::span<const void* const> all, std::size_t begin, std::size_t end);

// A call with the memory of one rank, which is the caller's:
//
//   all_reduce, reduce_scatter, broadcast   in == out, the buffer
//   all_gather                              in, and out for what all have
//   all_to_all                              parts
//   agree                                   in, and out: an AgreePart (comm.hpp)
//   split                                   out: a SplitPart (comm.hpp)
struct CollectiveRequest {
  CollectiveCall call = {};
  const void* in = nullptr;
  void* out = nullptr;
  AllToAll parts = {};

  // The memory that other ranks read: the buffer, or the parts of an all_to_all.
  const void* input() const {
    return call.collective == Collective::all_to_all ? static_cast<const void*>(&parts) : in;
  }
  // Bytes of the caller's data: its own part in all_gather and agree, the parts to send in
  // all_to_all.
  std::size_t bytes() const {
    return call.collective == Collective::all_to_all ? parts.send_bytes() : call.bytes();
  }
};

// The arguments are those of Comm's members of the same names; counts of all_to_all are memory of
// the call, too. Nothing happens here: the request may be kept, and made or started often.
template <class T>
CollectiveRequest all_reduce(std::span<T> data, ReduceOp op = ReduceOp::sum,
                             Traffic kind = Traffic::control) {
  static_assert(element_of<T>() != Element::byte, "only float, double and int64 can be reduced");
  return {.call = {.collective = Collective::all_reduce,
                   .count = data.size(),
                   .element = element_of<T>(),
                   .op = op,
                   .kind = kind},
          .in = data.data(),
          .out = data.data()};
}
template <class T>
CollectiveRequest reduce_scatter(std::span<T> data, ReduceOp op = ReduceOp::sum,
                                 Traffic kind = Traffic::control) {
  CollectiveRequest request = all_reduce(data, op, kind);
  request.call.collective = Collective::reduce_scatter;
  return request;
}
template <class T>
CollectiveRequest broadcast(std::span<T> data, int root, Traffic kind = Traffic::control) {
  return {.call = {.collective = Collective::broadcast,
                   .count = data.size_bytes(),
                   .root = root,
                   .kind = kind},
          .in = data.data(),
          .out = data.data()};
}
template <class T>
CollectiveRequest all_gather(std::span<const T> mine, std::span<T> all,
                             Traffic kind = Traffic::control) {
  return {.call = {.collective = Collective::all_gather, .count = mine.size_bytes(), .kind = kind},
          .in = mine.data(),
          .out = all.data()};
}
// The parts are copied as bytes and without conversion.
template <class T>
CollectiveRequest all_to_all(std::span<const T> send, std::span<const std::size_t> send_counts,
                             std::span<T> receive, std::span<const std::size_t> receive_counts,
                             Traffic kind = Traffic::control) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {.call = {.collective = Collective::all_to_all, .count = sizeof(T), .kind = kind},
          .parts = {send.data(), send.size(), send_counts, receive.data(), receive.size(),
                    receive_counts, sizeof(T)}};
}

// Bytes that one rank sends to the others and gets from them, as counted for the best algorithms:
// none moves fewer. The count does not depend on the way that the cluster takes. An all_reduce of n
// bytes has 2 (p-1)/p n each way, as on a ring, and reduce_scatter and all_gather are its halves.
struct CallTraffic {
  std::size_t sent = 0, received = 0;
};
CallTraffic traffic_of(const CollectiveRequest& request, int rank, int size);

// The memory of a request as a cluster that copies sees it, in bytes.
struct CollectiveMemory {
  const void* in = nullptr;
  std::size_t in_bytes = 0;
  void* out = nullptr;
  std::size_t out_bytes = 0;
  bool in_place = false;  // out is in
  Block changed = {};     // bytes of `out` that the call defines on this rank
};
// The root of a broadcast has no output, and the others no input. Without data (barrier, split)
// there are no bytes.
CollectiveMemory memory_of(const CollectiveRequest& request, int rank, int size);

// A cluster's views of that memory during one call. View is its class for them, for example
// HostMemory.
template <class View>
struct CollectiveViews {
  explicit CollectiveViews(const CollectiveMemory& mine)
      : memory(mine),
        target(mine.in_place ? View::Use::update : View::Use::write, mine.out, mine.out_bytes),
        source(mine.in, mine.in_place ? 0 : mine.in_bytes) {}
  std::byte* in() const { return memory.in_place ? target.data() : source.data(); }
  std::byte* out() const { return target.data(); }
  void store() { target.store(memory.changed.begin, memory.changed.end); }

  const CollectiveMemory memory;
  View target;
  const View source;
};

// The arguments of one rank's split().
struct SplitChoice {
  int color = 0;  // < 0: joins no group
  int key = 0;
};
// The new groups in the order of their colours, each as the old ranks of its members in the order
// of their new ranks: by key, equal keys by old rank. Colours 1, 0, 1, -1 and keys 5, 0, 2, 0 of
// the ranks 0 to 3 give {1}, {2, 0}. Every rank can so compute all groups from what all have
// gathered.
std::vector<std::vector<int>> plan_groups(std::span<const SplitChoice> by_rank);

// Lengths in bytes of a rank's call of Comm::sendrecv: what it gives and what it expects.
struct SendrecvLengths {
  std::uint64_t out = 0, in = 0;
};
// Throws CheckFailure unless what each gives is what the other expects.
void check_same_sendrecv(int rank, const SendrecvLengths& mine, int tag, int peer,
                         const SendrecvLengths& theirs);

}  // namespace hetsgd
