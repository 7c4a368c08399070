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
// Tag    : all messages of a call use one tag; a second call may follow with the same.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "collective/combine.hpp"

namespace hetsgd {

namespace detail {

// The exchange among a power of two q of ranks. `me` counts them from 0; rank_of turns that into a
// rank of comm.
template <class T, class RankOf>
void halve_and_double(Comm& comm, int tag, std::span<T> data, std::vector<T>& scratch, ReduceOp op,
                      Traffic kind, int q, int me, const RankOf& rank_of) {
  std::array<std::span<T>, 32> kept, given;  // by step
  std::span<T> slice = data;
  std::size_t step = 0;
  for (int distance = 1; distance < q; distance <<= 1, ++step) {
    const bool lower = (me & distance) == 0;
    const std::span<T> first = slice.first(slice.size() / 2), second = slice.subspan(first.size());
    kept[step] = lower ? first : second;
    given[step] = lower ? second : first;
    const std::span<T> incoming = room(scratch, kept[step].size());
    comm.send<T>(rank_of(me ^ distance), tag, given[step], kind);
    comm.receive<T>(rank_of(me ^ distance), tag, incoming);
    combine<T>(incoming, kept[step], op);
    slice = kept[step];
  }
  for (int distance = q >> 1; distance > 0; distance >>= 1) {
    --step;
    comm.send<T>(rank_of(me ^ distance), tag, kept[step], kind);
    comm.receive<T>(rank_of(me ^ distance), tag, given[step]);
  }
}

}  // namespace detail

// In place: every rank ends with the reduction over all ranks. scratch: half as long as data, or as
// long if p is no power of two.
template <class T>
void halving_doubling_all_reduce(Comm& comm, int tag, std::span<T> data, std::vector<T>& scratch,
                                 ReduceOp op = ReduceOp::sum, Traffic kind = Traffic::control) {
  const int p = comm.size(), r = comm.rank();
  const int q = static_cast<int>(std::bit_floor(static_cast<unsigned>(p)));
  const int folded = 2 * (p - q);  // ranks below this fold in pairs
  if (r < folded && r % 2 == 1) {
    comm.send<T>(r - 1, tag, data, kind);
    comm.receive<T>(r - 1, tag, data);
    return;
  }
  if (r < folded) {
    const std::span<T> incoming = room(scratch, data.size());
    comm.receive<T>(r + 1, tag, incoming);
    combine<T>(incoming, data, op);
  }
  const int me = r < folded ? r / 2 : r - folded / 2;
  detail::halve_and_double(comm, tag, data, scratch, op, kind, q, me, [folded](int other) {
    return other < folded / 2 ? 2 * other : other + folded / 2;
  });
  if (r < folded) comm.send<T>(r + 1, tag, data, kind);
}

}  // namespace hetsgd
