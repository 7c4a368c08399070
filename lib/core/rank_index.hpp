// Ranks are int, as in MPI, and -1 is none of them; containers count in std::size_t.
#pragma once

#include <cstddef>

namespace hetsgd {

// The place of `rank` (>= 0) in a container with one element per rank: busy[at(rank)].
constexpr std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace hetsgd
