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
// Tag    : all messages of a call use one tag; a second call may follow with the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "collective/combine.hpp"

namespace hetsgd {

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
    comm.send<T>((r + 1) % p, tag, outgoing, kind);
    comm.receive<T>((r + p - 1) % p, tag, incoming);
    // What has come so far stands first: x_{b+1} + x_{b+2} + ...
    combine<T>(mine, incoming, op);
    std::copy(incoming.begin(), incoming.end(), mine.begin());
  }
}

// In place: before, this rank's block is filled; afterwards all blocks are.
template <class T>
void ring_all_gather(Comm& comm, int tag, std::span<T> data, Traffic kind = Traffic::control) {
  const int p = comm.size(), r = comm.rank();
  for (int step = 0; step < p - 1; ++step) {
    comm.send<T>((r + 1) % p, tag, detail::ring_block(comm, data, r - step), kind);
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

}  // namespace hetsgd
