// Ranks are int, as in MPI, and -1 is none of them; so are the nodes of a graph, and the steps and
// tensors of its training step. Containers count in std::size_t.
#pragma once

#include <cstddef>

namespace hetsgd {

// The place of `number` (>= 0) in a container with one element per rank, node ...: busy[at(rank)].
// Also a number of ranks, nodes ... as a size.
constexpr std::size_t at(int number) { return static_cast<std::size_t>(number); }

}  // namespace hetsgd
