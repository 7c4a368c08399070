// What a rank asked for when it entered a collective: the clusters compare it between ranks, so
// that a mismatch is a check failure that names both and not a hang or wrong numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cluster/comm.hpp"

namespace hetsgd {

enum class Collective : std::uint8_t {
  all_reduce,
  broadcast,
  all_gather,
  agree,
  reduce_scatter,
  barrier,
  split,
  fence_together,
};

std::string_view collective_name(Collective collective);  // "all_reduce"
std::size_t element_bytes(Element element);

// The slice of `count` elements that is `rank`'s to move in a collective over memory that all reach:
// whole cache lines, so that no two ranks write to one.
Block whole_lines(int rank, int size, std::size_t count, Element element);

struct CollectiveCall {
  Collective collective = Collective::barrier;
  std::size_t count = 0;            // elements; broadcast, all_gather, agree: bytes
  Element element = Element::byte;  // byte where nothing is reduced
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // broadcast
  Traffic kind = Traffic::control;

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

std::string describe(const CollectiveCall& call);  // all_reduce (sum) of 100 float32 as gradients

// Throws CheckFailure unless the two calls agree: "ranks 0 and 2 differ in one collective: rank 0
// calls all_reduce (sum) of 100 float32 as gradients, rank 2 calls barrier".
void check_same_call(int rank_a, const CollectiveCall& a, int rank_b, const CollectiveCall& b);

// The lengths (bytes) with which a rank calls Comm::exchange.
struct ExchangeLengths {
  std::uint64_t out = 0, in = 0;
};
// Throws CheckFailure unless what each gives is what the other expects.
void check_same_exchange(int rank, const ExchangeLengths& mine, int tag, int peer,
                         const ExchangeLengths& theirs);

}  // namespace hetsgd
