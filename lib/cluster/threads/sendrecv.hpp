// Comm::sendrecv between two ranks: calls that wait for their partner. All members are called under
// the world's mutex.
//
// The first of the two posts itself and blocks; the second finds it and makes both partners. From
// then on the two sides are alike, and each copies what it gets out of the other's memory:
//
//   first    posted --------------+
//              | abort: unwound   | partner set by the second;         `filled`: the second has
//              v                  v wakes the first                    copied for both, done
//            (gone)            paired -----> copies other.out to in -----> other.released = true
//                                 ^          (mutex given up)                     |
//   second   finds it ------------+                                               v
//                                               returns <--- own released: `out` is read
//
// From `paired` on neither side is interruptible, since the other reads its `out`. The wait for the
// own `released` is what keeps `out` alive until then.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/realtime/world.hpp"

namespace hetsgd::threads {

using namespace realtime;

// One rank's side of a sendrecv. On its stack, until its partner no longer reads its `out`.
struct PostedSendrecv {
  int rank = 0;
  int peer = 0;
  int tag = 0;
  std::span<const std::byte> out = {};
  std::span<std::byte> in = {};
  Traffic kind = Traffic::control;
  bool on_device = false;  // out and in lie on the rank's GPU, and the partner's on its own
  Process* process = nullptr;
  PostedSendrecv* partner = nullptr;  // null: not here yet
  bool filled = false;                // `in` is, by the partner: short ones
  bool released = false;              // the partner has read `out`
};

// Waiting sendrecvs of one rank, in the order of the calls: at most one for each process of the
// rank.
using PostedSendrecvs = std::vector<PostedSendrecv*>;

}  // namespace hetsgd::threads
