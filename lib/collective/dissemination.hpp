// Barrier by dissemination.
//
// Source : Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", IJPP 1988.
// Steps  : in step k every rank sends to rank r + 2^k (modulo p) and receives from r - 2^k; after
//          ceil(log2 p) steps each has heard, directly or not, from everybody.
// Cost   : ceil(log2 p) empty messages per rank and as many latencies (NetworkModel::barrier_cost),
//          for any p.
// Tag    : all messages of a call use one tag; a second call may follow with the same.
#pragma once

#include <cstddef>
#include <span>

#include "cluster/comm.hpp"

namespace hetsgd {

// Returns when all ranks have called it.
inline void dissemination_barrier(Comm& comm, int tag) {
  const int p = comm.size(), r = comm.rank();
  for (int distance = 1; distance < p; distance <<= 1) {
    comm.send_bytes((r + distance) % p, tag, {}, Traffic::control);
    comm.receive_bytes((r - distance + p) % p, tag, {});
  }
}

}  // namespace hetsgd
