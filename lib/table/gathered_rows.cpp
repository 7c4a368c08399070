#include "table/gathered_rows.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

GatheredRows::GatheredRows(const TablePlan& plan, std::span<const Index> rows)
    : plan_(plan),
      group_(static_cast<std::size_t>(plan.placement.groups())),
      number_(plan.placement.first().back()),
      rows_(rows.size() * plan.placement.width()) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [group, place] = plan.placement.place_of(plan.placement.field_of(rows[i]), rows[i]);
    group_[group].places.push_back(place);
    group_[group].numbers.push_back(static_cast<Index>(i));
    number_[rows[i]] = static_cast<Index>(i);
  }
}

std::vector<Index> GatheredRows::places(int rank) const {
  return group_of(rank).places;
}

void GatheredRows::take(int rank, std::span<const float> columns) {
  const Placement::Columns own = plan_.placement.columns(rank);
  const Group& group = group_of(rank);
  HETSGD_CHECK_EQ(group.numbers.size() * own.size(), columns.size());
  const float* from = columns.data();
  for (const Index number : group.numbers) {
    std::copy_n(from, own.size(), rows_.data() + number * plan_.placement.width() + own.begin);
    from += own.size();
  }
}

void GatheredRows::read(std::size_t, Index row, float* to) const {
  const std::size_t C = plan_.placement.width();
  std::copy_n(rows_.data() + number_[row] * C, C, to);
}

}  // namespace hetsgd
