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
  const int group = placement.group_of_rank(rank);
  const std::size_t rows = placement.rows(rank), hot = tiers.on_device(rows);
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
  for (std::size_t i = 0; i < rows; ++i) {
    count[i] = (*tiers.counts)[placement.row_at(group, static_cast<Index>(i)).row];
  }
  std::vector<Index> order(rows);
  std::iota(order.begin(), order.end(), Index{0});
  const auto more = [&](Index a, Index b) {
    return count[a] != count[b] ? count[a] > count[b] : a < b;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(hot);
  std::nth_element(order.begin(), end, order.end(), more);
  std::for_each(order.begin(), end, [&](Index i) { on_device[i] = true; });
  return on_device;
}

DeviceRows::DeviceRows(const Tiers& tiers, const Placement& placement, int rank)
    : storage_(tiers.storage), hot_(hot_rows(tiers, placement, rank)) {
  if (storage_ != TableStorage::hybrid) return;
  replace_every_ = tiers.replace_every;
  if (replace_every_) asked_.resize(hot_.size());
}

std::size_t DeviceRows::count(std::span<const Index> places) const {
  switch (storage_) {
    case TableStorage::device:
      return places.size();
    case TableStorage::host:
      return 0;
    case TableStorage::hybrid:
      break;
  }
  return static_cast<std::size_t>(
      std::ranges::count_if(places, [&](Index place) { return bool{hot_[place]}; }));
}

void DeviceRows::asked_for(std::span<const Index> places) {
  if (!replace_every_) return;
  for (const Index place : places) ++asked_[place];
}

std::size_t DeviceRows::end_update() {
  if (!replace_every_ || ++updates_ % *replace_every_ != 0) return 0;
  return replace();
}

void DeviceRows::fields(Archive& fields) {
  fields("updates", updates_);
  fields("hot", hot_);
  fields("asked", asked_);
}

std::size_t DeviceRows::replace() {
  std::vector<Index> order(hot_.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto end = order.begin() + std::ranges::count(hot_, true);
  std::nth_element(order.begin(), end, order.end(), [&](Index a, Index b) {
    if (asked_[a] != asked_[b]) return asked_[a] > asked_[b];
    return hot_[a] != hot_[b] ? bool{hot_[a]} : a < b;
  });
  const auto came = std::count_if(order.begin(), end, [&](Index place) { return !hot_[place]; });
  hot_.assign(hot_.size(), false);
  std::for_each(order.begin(), end, [&](Index place) { hot_[place] = true; });
  for (std::uint32_t& count : asked_) count /= 2;
  return static_cast<std::size_t>(came);
}

}  // namespace hetsgd
