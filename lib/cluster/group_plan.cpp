#include "cluster/group_plan.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace hetsgd {

std::vector<std::vector<int>> plan_groups(std::span<const SplitChoice> by_rank) {
  const auto choice = [&](int rank) { return by_rank[static_cast<std::size_t>(rank)]; };
  std::vector<int> order(by_rank.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int rank) { return choice(rank).color < 0; });
  std::ranges::sort(
      order, {}, [&](int rank) { return std::tuple(choice(rank).color, choice(rank).key, rank); });
  std::vector<std::vector<int>> groups;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || choice(order[i]).color != choice(order[i - 1]).color) groups.emplace_back();
    groups.back().push_back(order[i]);
  }
  return groups;
}

}  // namespace hetsgd
