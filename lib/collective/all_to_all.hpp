// The asynchronous all_to_all: as many scatters as ranks, by posted messages.
//
// As soon as its parts are ready a rank posts them to the ranks after it, the next one first, so
// that no rank is the target of all others at once. Its own part is copied. It is done when the
// parts of all others are here. Nobody waits for another's arrival, only for its data:
//
//              Comm::all_to_all, collective             scatters
//   rank 0     |-- waits --|=======|                    |=== posts ===| ... done: part of 2 is here
//   rank 1     |-- waits --|=======|                    |=== posts ===| ... done
//   rank 2                 |=======|                                  |=| done: all were here
//
// A part that comes before its receiver has reached the call waits in the cluster's memory (the
// staging buffer). One copy brings it home from there, which is free of charge in sim.
//
// Cost with p ranks, equal parts of n bytes, latency L and link bandwidth B, all ranks arriving at
// once: L + (p-1) n/B, as Comm::all_to_all. If one rank is late by D, Comm::all_to_all is late by D
// for all. Here the late rank is done when it comes (D >= L + (p-1) n/B), and the rank d places
// behind it at D + L + d n/B.
//
// Source: Sven, section 6.1.3 (asynchronous all-to-all).
#pragma once

#include "cluster/comm.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

// How rows and gradients of rows are exchanged (--exchange). scatter and nonblocking are the same
// messages here; they differ in the reader of rows in the host's memory (table/).
enum class Exchange {
  scatter,      // this file, as Sven
  blocking,     // Comm::all_to_all, as NCCL
  nonblocking,  // this file, as MPI_Ialltoallv
};

// Makes `request`, an all_to_all. Only with `blocking` all ranks wait for each other. Every rank of
// the group calls it, with the same tag, which nothing else uses meanwhile; calls with one tag are
// matched in their order. The parts lie in host memory or in that of `device`, the caller's. Throws
// what Comm::all_to_all throws. If lengths differ, the receiver of a message says what it got.
void exchange_parts(Exchange how, Comm& comm, Device& device, int tag,
                    const CollectiveRequest& request);

}  // namespace hetsgd
