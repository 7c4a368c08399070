// Partial all_reduce: ranks that have something contribute it, the others add zeros, and every rank
// receives the sum.
//
// Source : Li, Ben-Nun, Di Girolamo, Alistarh and Hoefler, "Taming unbalanced training workloads in
//          deep learning with partial collective operations", PPoPP 2020; RNA, section 5.1.1.
// Parts  : the activation tells all ranks that a round begins. All take part in the reduction; a
//          rank without a contribution sends zeros.
// Cost   : the reduction costs what an all_reduce over all ranks costs, whatever the number of
//          contributors. A caller that must not be held up calls from a background task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cluster/comm.hpp"
#include "linalg/device.hpp"

namespace hetsgd {

// A rank's input to a round besides its vector.
struct PartialShare {
  bool contributes = false;
  int items = 0;      // how many things the rank accounts for in this round, e.g. gradients
  bool last = false;  // this rank wants no further round
};

// Result of a round: the same on all ranks, and so a common decision without further messages.
struct PartialSum {
  int contributors = 0;
  std::int64_t items = 0;
  bool last = false;  // some rank wants no further round
};

// Elements that a buffer needs behind its contribution, because the shares travel with it.
inline constexpr std::size_t kPartialTail = 3;

// data: [n + kPartialTail] memory of `device`; its first n elements are this rank's contribution,
// zeros if it has none. Afterwards they are the sum over all ranks, added in rank order.
// Collective. The sum of items is exact up to 2^24 per round.
PartialSum partial_all_reduce(Comm& comm, Device& device, std::span<float> data,
                              const PartialShare& share, Traffic kind);

// --- activation without a centre -----------------------------------------------------------------
// Any number of ranks may activate a round at once. A rank learns of it from itself or by the first
// message. It passes it on once, to the ranks at distance 1, 2, 4, ... behind it. All know after at
// most ceil(log2 p) messages in a row, and each rank must receive exactly activation_messages(p)
// messages per round. tag: the caller's, the same for the round on all ranks; rounds that can
// overlap need different ones.
int activation_messages(int p);  // ceil(log2 p)
void pass_on_activation(Comm& comm, int tag);
// Returns when one such message has come, from anybody.
void receive_activation(Comm& comm, int tag);

}  // namespace hetsgd
