// Collectives that are written over messages, each with a topology of its own: around a ring, over
// a binomial tree, by vector halving and distance doubling. All messages of a call use one tag; a
// second call may follow with the same. Callers keep `scratch` between calls: then nothing is
// allocated.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "collective/combine.hpp"

namespace hetsgd {

// --- ring ----------------------------------------------------------------------------------------
// Collectives around a ring: every rank talks to its two neighbours only, and all links are busy
// all the time.
//
// Source : Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//          workstations", JPDC 2009.
// Cost   : with p ranks, n bytes, latency L and link bandwidth B (NetworkModel, exact when p
//          divides the count):
//            ring_reduce_scatter, ring_all_gather   p-1 steps, (p-1)/p n bytes sent per rank,
//                                                   (p-1) (L + n/(p B))
//            ring_all_reduce                        one after the other: optimal in bytes, linear
//                                                   in latency
// Blocks : rank r owns Comm::block_of(r, n).
// Order  : block b is summed in the order of ranks b+1, b+2, ..., b (modulo p), and is the same
//          bits on all ranks. Comm::all_reduce sums in the order 0, 1, ...; the two differ by
//          rounding.

namespace detail {

// The slice of data that `rank` (any integer, modulo p) owns.
template <class T>
std::span<T> ring_block(const Comm& comm, std::span<T> data, int rank) {
  const int p = comm.size();
  const auto block = comm.block_of((rank % p + p) % p, data.size());
  return data.subspan(block.begin, block.end - block.begin);
}

}  // namespace detail

// In place: afterwards this rank's block holds the reduction over all ranks; the rest is
// unspecified. scratch: block-sized.
//
// Block b starts at rank b+1 and travels to rank b; each rank on the way adds its own contribution.
template <class T>
void ring_reduce_scatter(Comm& comm, int tag, std::span<T> data, std::vector<T>& scratch,
                         ReduceOp op = ReduceOp::sum, Traffic kind = Traffic::control) {
  const int p = comm.size(), r = comm.rank();
  for (int step = 0; step < p - 1; ++step) {
    const std::span<T> outgoing = detail::ring_block(comm, data, r - 1 - step);
    const std::span<T> mine = detail::ring_block(comm, data, r - 2 - step);
    const std::span<T> incoming = room(scratch, mine.size());
    comm.send((r + 1) % p, tag, outgoing, kind);
    comm.receive<T>((r + p - 1) % p, tag, incoming);
    // The partial sum so far stands first: x_{b+1} + x_{b+2} + ...
    combine<T>(mine, incoming, op);
    std::copy(incoming.begin(), incoming.end(), mine.begin());
  }
}

// In place: before, this rank's block is filled; afterwards all blocks are.
template <class T>
void ring_all_gather(Comm& comm, int tag, std::span<T> data, Traffic kind = Traffic::control) {
  const int p = comm.size(), r = comm.rank();
  for (int step = 0; step < p - 1; ++step) {
    comm.send((r + 1) % p, tag, detail::ring_block(comm, data, r - step), kind);
    comm.receive<T>((r + p - 1) % p, tag, detail::ring_block(comm, data, r - 1 - step));
  }
}

// In place: every rank ends with the reduction over all ranks.
template <class T>
void ring_all_reduce(Comm& comm, int tag, std::span<T> data, std::vector<T>& scratch,
                     ReduceOp op = ReduceOp::sum, Traffic kind = Traffic::control) {
  ring_reduce_scatter(comm, tag, data, scratch, op, kind);
  ring_all_gather(comm, tag, data, kind);
}

// --- binomial tree -------------------------------------------------------------------------------
// Collectives over a binomial tree: logarithmic latency, whole vectors on the wire.
//
// Source : Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
//          MPICH", IJHPCA 2005 (broadcast and reduce of long and short vectors).
// Cost   : with p ranks, n bytes, latency L, link bandwidth B and d = ceil(log2 p) (NetworkModel):
//            binomial_broadcast   at most d steps; every rank but the root receives n bytes, and
//                                 sends them as often as it has children (the root: d);
//                                 d (L + n/B)
//            tree_all_reduce      reduction to rank 0 and broadcast: 2 d (L + n/B)
//          Exact for powers of two. Otherwise some ranks have nothing to do in a step and the tree
//          may be faster.
// Order  : ((x0 + x1) + (x2 + x3)) + ..., the same bits on all ranks.

// Every rank ends with the root's data.
//
// With ranks counted from the root, the parent of v is v without its lowest set bit; children are
// served farthest first, as their subtrees are the deepest.
template <class T>
void binomial_broadcast(Comm& comm, int tag, std::span<T> data, int root,
                        Traffic kind = Traffic::control) {
  const int p = comm.size();
  const int v = (comm.rank() - root + p) % p;
  int bit = 1;
  while (bit < p && (v & bit) == 0) bit <<= 1;
  if (v != 0) comm.receive<T>((v - bit + root) % p, tag, data);
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (v + bit < p) comm.send((v + bit + root) % p, tag, data, kind);
  }
}

// In place: every rank ends with the reduction over all ranks. scratch: as long as data.
template <class T>
void tree_all_reduce(Comm& comm, int tag, std::span<T> data, std::vector<T>& scratch,
                     ReduceOp op = ReduceOp::sum, Traffic kind = Traffic::control) {
  const int p = comm.size(), r = comm.rank();
  for (int bit = 1; bit < p; bit <<= 1) {
    if ((r & bit) != 0) {
      comm.send(r - bit, tag, data, kind);
      break;
    }
    if (r + bit >= p) continue;
    const std::span<T> incoming = room(scratch, data.size());
    comm.receive<T>(r + bit, tag, incoming);
    combine<T>(incoming, data, op);
  }
  binomial_broadcast(comm, tag, data, 0, kind);
}

// --- halving and doubling ------------------------------------------------------------------------
// all_reduce by recursive vector halving and distance doubling: logarithmic latency and the ring's
// bytes.
//
// Source : Thakur, Rabenseifner and Gropp, IJHPCA 2005 (Rabenseifner's algorithm).
// Steps  : in the k-th of log2 q steps, partners at distance 2^k exchange halves of the slice that
//          both still hold and reduce them; then the same way back, exchanging reduced slices.
//          Any p: q = the largest power of two <= p. The odd ones of the first 2(p-q) ranks give
//          their vector to their left neighbour before (fold) and get the result after (unfold).
// Cost   : with p ranks, n bytes, latency L and link bandwidth B (NetworkModel; exact when q
//          divides the count):
//          2 (log2 q L + (q-1)/q n/B), and 2 (L + n/B) for the fold and unfold. Bytes sent per
//          rank: 2 (q-1)/q n, plus n for each rank that takes part in the fold.
// Order  : pairs, then pairs of pairs, in the order of ranks; the same bits on all ranks.

// The ranks that are left after a fold: the largest power of two of the group's, counted from 0.
// Each odd one of the first `folded` ranks gives its vector to the one before it, and gets the
// result in the end.
struct PowerOfTwo {
  explicit PowerOfTwo(const Comm& comm)
      : count(static_cast<int>(std::bit_floor(static_cast<unsigned>(comm.size())))),
        folded(2 * (comm.size() - count)),
        me(comm.rank() < folded ? comm.rank() / 2 : comm.rank() - folded / 2) {}
  // Turns a number of this count into a rank of the group.
  int rank(int number) const { return number < folded / 2 ? 2 * number : number + folded / 2; }
  // True for the lower one of two numbers that are `distance` apart.
  bool leads(int distance) const { return (me & distance) == 0; }

  int count, folded, me;
};

namespace detail {

template <class T>
void halve_and_double(Comm& comm, int tag, std::span<T> data, std::vector<T>& scratch, ReduceOp op,
                      Traffic kind, const PowerOfTwo& ranks) {
  std::array<std::span<T>, 32> kept, given;  // by step
  std::span<T> slice = data;
  std::size_t step = 0;
  for (int distance = 1; distance < ranks.count; distance <<= 1, ++step) {
    const bool lower = ranks.leads(distance);
    const int other = ranks.rank(ranks.me ^ distance);
    const std::span<T> first = slice.first(slice.size() / 2), second = slice.subspan(first.size());
    kept[step] = lower ? first : second;
    given[step] = lower ? second : first;
    const std::span<T> incoming = room(scratch, kept[step].size());
    comm.send(other, tag, given[step], kind);
    comm.receive<T>(other, tag, incoming);
    combine<T>(incoming, kept[step], op);
    slice = kept[step];
  }
  for (int distance = ranks.count >> 1; distance > 0; distance >>= 1) {
    --step;
    const int other = ranks.rank(ranks.me ^ distance);
    comm.send(other, tag, kept[step], kind);
    comm.receive<T>(other, tag, given[step]);
  }
}

}  // namespace detail

// In place: every rank ends with the reduction over all ranks. scratch: half as long as data, or as
// long if p is no power of two.
template <class T>
void halving_doubling_all_reduce(Comm& comm, int tag, std::span<T> data, std::vector<T>& scratch,
                                 ReduceOp op = ReduceOp::sum, Traffic kind = Traffic::control) {
  const PowerOfTwo ranks(comm);
  const int r = comm.rank();
  if (r < ranks.folded && r % 2 == 1) {
    comm.send(r - 1, tag, data, kind);
    comm.receive<T>(r - 1, tag, data);
    return;
  }
  if (r < ranks.folded) {
    const std::span<T> incoming = room(scratch, data.size());
    comm.receive<T>(r + 1, tag, incoming);
    combine<T>(incoming, data, op);
  }
  detail::halve_and_double(comm, tag, data, scratch, op, kind, ranks);
  if (r < ranks.folded) comm.send(r + 1, tag, data, kind);
}

}  // namespace hetsgd
