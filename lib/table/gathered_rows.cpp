#include "table/gathered_rows.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

GatheredRows::GatheredRows(const TablePlan& plan, std::span<const Index> rows)
    : plan_(plan),
      group_(plan.placement.groups()),
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
  std::vector<Index> places;
  for (const TablePlacement::Part& part : plan_.placement.parts(rank)) {
    for (const Index place : group_[part.group].places) places.push_back(part.first + place);
  }
  return places;
}

void GatheredRows::take(int rank, std::span<const float> columns) {
  const float* from = columns.data();
  for (const TablePlacement::Part& part : plan_.placement.parts(rank)) {
    const std::size_t width = part.columns.size();
    const Group& group = group_[part.group];
    const auto left = static_cast<std::size_t>(columns.data() + columns.size() - from);
    HETSGD_CHECK_LE(group.numbers.size() * width, left);
    for (const Index number : group.numbers) {
      std::copy_n(from, width,
                  rows_.data() + number * plan_.placement.width() + part.columns.begin);
      from += width;
    }
  }
  HETSGD_CHECK(from == columns.data() + columns.size());
}

void GatheredRows::read(std::size_t, Index row, float* to) const {
  const std::size_t C = plan_.placement.width();
  std::copy_n(rows_.data() + number_[row] * C, C, to);
}

}  // namespace hetsgd
