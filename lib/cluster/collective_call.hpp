// What a rank asked for when it entered a collective: the clusters compare it between ranks, so
// that a mismatch is a check failure that names both and not a hang or wrong numbers. (Ranks that
// disagree on a length would otherwise overwrite memory, and those that disagree on the collective
// would wait for each other.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cluster/comm.hpp"

namespace hetsgd {

// Also what is no collective of Comm but is entered by all ranks: while_paused_together.
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
std::size_t element_bytes(Element element);

// The slice of `count` elements that is `rank`'s to move in a collective over memory that all
// reach: whole cache lines, so that no two ranks write to one. The slices of all ranks follow each
// other and cover everything; with fewer lines than ranks some are empty. (Not the blocks that
// reduce_scatter hands out: those are block_of.)
Block whole_lines(int rank, int size, std::size_t count, Element element);

// The ranks' calls must be equal in every field, and fields that a collective does not use keep
// their defaults. The lengths of an all_to_all differ per rank and are compared apart
// (check_same_parts).
struct CollectiveCall {
  Collective collective = Collective::barrier;
  // Elements; broadcast, all_gather, agree: bytes; all_to_all: bytes of an element.
  std::size_t count = 0;
  Element element = Element::byte;  // byte where nothing is reduced
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // broadcast
  Traffic kind = Traffic::control;

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

// In words, with the fields that matter for the collective.
std::string describe(const CollectiveCall& call);  // all_reduce (sum) of 100 float32 as gradients

// Throws CheckFailure unless the two calls agree: "ranks 0 and 2 differ in one collective: rank 0
// calls all_reduce (sum) of 100 float32 as gradients, rank 2 calls barrier".
void check_same_call(int rank_a, const CollectiveCall& a, int rank_b, const CollectiveCall& b);

// The lengths (bytes) with which a rank calls Comm::sendrecv: what it gives and what it expects.
struct SendrecvLengths {
  std::uint64_t out = 0, in = 0;
};
// Throws CheckFailure unless what each gives is what the other expects.
void check_same_sendrecv(int rank, const SendrecvLengths& mine, int tag, int peer,
                         const SendrecvLengths& theirs);

}  // namespace hetsgd
