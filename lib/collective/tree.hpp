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
// Tag    : all messages of a call use one tag; a second call may follow with the same.
#pragma once

#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "collective/combine.hpp"

namespace hetsgd {

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
    if (v + bit < p) comm.send<T>((v + bit + root) % p, tag, data, kind);
  }
}

// In place: every rank ends with the reduction over all ranks. scratch: as long as data.
template <class T>
void tree_all_reduce(Comm& comm, int tag, std::span<T> data, std::vector<T>& scratch,
                     ReduceOp op = ReduceOp::sum, Traffic kind = Traffic::control) {
  const int p = comm.size(), r = comm.rank();
  for (int bit = 1; bit < p; bit <<= 1) {
    if ((r & bit) != 0) {
      comm.send<T>(r - bit, tag, data, kind);
      break;
    }
    if (r + bit >= p) continue;
    const std::span<T> incoming = room(scratch, data.size());
    comm.receive<T>(r + bit, tag, incoming);
    combine<T>(incoming, data, op);
  }
  binomial_broadcast(comm, tag, data, 0, kind);
}

}  // namespace hetsgd
