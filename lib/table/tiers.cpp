#include "table/tiers.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

std::size_t Tiers::on_device(std::size_t rows) const {
  switch (storage) {
    case TableStorage::device:
      return rows;
    case TableStorage::host:
      return 0;
    case TableStorage::hybrid:
      break;
  }
  return static_cast<std::size_t>(hot_fraction * static_cast<double>(rows));
}

std::vector<bool> hot_rows(const Tiers& tiers, const Placement& placement, int rank) {
  if (tiers.storage != TableStorage::hybrid) return {};
  const std::size_t rows = placement.rows(rank), hot = tiers.on_device(rows);
  const int group = placement.group_of_rank(rank);
  std::vector<bool> on_device(rows);
  if (rows == 0) return on_device;
  if (tiers.choice == HotRows::random) {
    const Permutation shuffled(rows, tiers.seed, Purpose::hashing,
                               static_cast<std::uint32_t>(group));
    for (std::size_t i = 0; i < hot; ++i) on_device[shuffled(i)] = true;
    return on_device;
  }
  HETSGD_CHECK(tiers.counts != nullptr);
  std::vector<std::uint32_t> count(rows);
  for (std::size_t place = 0; place < rows; ++place) {
    count[place] = (*tiers.counts)[placement.row_at(group, static_cast<Index>(place)).row];
  }
  std::vector<Index> order(rows);
  std::iota(order.begin(), order.end(), Index{0});
  const auto more = [&](Index a, Index b) {
    return count[a] != count[b] ? count[a] > count[b] : a < b;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(hot);
  std::nth_element(order.begin(), end, order.end(), more);
  std::for_each(order.begin(), end, [&](Index place) { on_device[place] = true; });
  return on_device;
}

}  // namespace hetsgd
