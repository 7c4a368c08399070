// What Comm::split makes of the colours and keys of a group's ranks, the same on every cluster.
#pragma once

#include <span>
#include <vector>

namespace hetsgd {

// What one rank gave to split().
struct SplitChoice {
  int color = 0;  // < 0: joins no group
  int key = 0;
};

// The new groups in the order of their colours, each as the old ranks of its members in the order
// of their new ranks: by key, equal keys by old rank. Colours 1, 0, 1, -1 and keys 5, 0, 2, 0 of
// the ranks 0 to 3 give {1}, {2, 0}. Every rank can so compute all groups from what all have
// gathered.
std::vector<std::vector<int>> plan_groups(std::span<const SplitChoice> by_rank);

}  // namespace hetsgd
