#include "table/table_placement.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.hpp"

namespace hetsgd {

namespace {

// The position of the n-th set bit, from 0.
Index nth_bit(std::uint64_t word, Index n) {
  for (; n > 0; --n) word &= word - 1;
  return static_cast<Index>(std::countr_zero(word));
}

// Where each field's rows of one temperature begin, in the numbers of these rows alone.
std::vector<Index> first_of(std::span<const Index> first, const HotSet& rows, bool hot) {
  std::vector<Index> own;
  own.reserve(first.size());
  for (const Index row : first) {
    const Index before = rows.before(row);
    own.push_back(hot ? before : row - before);
  }
  return own;
}

}  // namespace

// One word more than the rows need: before() may be asked for the end.
HotSet::HotSet(const std::vector<bool>& hot) : word_(hot.size() / kBits + 1) {
  for (std::size_t row = 0; row < hot.size(); ++row) {
    word_[row / kBits] |= std::uint64_t{hot[row]} << (row % kBits);
  }
  before_.reserve(word_.size());
  Index before = 0;
  for (const std::uint64_t word : word_) {
    before_.push_back(before);
    before += static_cast<Index>(std::popcount(word));
  }
}

Index HotSet::before(Index row) const {
  const std::uint64_t below = (std::uint64_t{1} << (row % kBits)) - 1;
  return before_[row / kBits] + static_cast<Index>(std::popcount(word_[row / kBits] & below));
}

Index HotSet::hot_row(Index number) const {
  const auto after = std::ranges::upper_bound(before_, number);
  const auto word = static_cast<std::size_t>(after - before_.begin()) - 1;
  return static_cast<Index>(word) * kBits + nth_bit(word_[word], number - before_[word]);
}

Index HotSet::cold_row(Index number) const {
  const auto cold_before = [&](std::size_t word) {
    return static_cast<Index>(word) * kBits - before_[word];
  };
  std::size_t low = 0, high = word_.size();  // the last word with so many before it, or fewer
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (cold_before(middle) <= number ? low : high) = middle;
  }
  return static_cast<Index>(low) * kBits + nth_bit(~word_[low], number - cold_before(low));
}

TablePlacement::TablePlacement(Placement all) : all_(std::move(all)) { find_parts(); }

TablePlacement::TablePlacement(Placement all, const Sharding& sharding,
                               std::span<const double> load, const std::vector<bool>& hot,
                               const Sharding& hot_sharding)
    : all_(std::move(all)) {
  HETSGD_CHECK_EQ(hot.size(), std::size_t{first().back()});
  const HotSet rows(hot);
  split_.emplace(
      Split{.hot_rows = rows,
            .cold = Placement(first_of(first(), rows, false), width(), ranks(), sharding, load),
            .hot = Placement(first_of(first(), rows, true), width(), ranks(), hot_sharding, {},
                             "--hot-sharding")});
  find_parts();
}

void TablePlacement::find_parts() {
  parts_.clear();
  for (int rank = 0; rank < ranks(); ++rank) {
    std::size_t groups = 0;
    Index first = 0;
    for (std::size_t i = 0; i < layouts(); ++i) {
      const Placement& own = layout(i);
      const auto rows = static_cast<Index>(own.rows(rank));
      parts_.push_back({.group = groups + static_cast<std::size_t>(own.group_of_rank(rank)),
                        .columns = own.columns(rank),
                        .stride = own.stride(rank),
                        .first = first,
                        .rows = rows});
      groups += static_cast<std::size_t>(own.groups());
      first += rows;
    }
  }
}

std::size_t TablePlacement::groups() const {
  std::size_t groups = 0;
  for (std::size_t i = 0; i < layouts(); ++i)
    groups += static_cast<std::size_t>(layout(i).groups());
  return groups;
}

Placement::Row TablePlacement::row_at(int rank, Index place) const {
  if (!split_) return all_.row_at(all_.group_of_rank(rank), place);
  const Index hot = parts(rank).back().first;
  const bool is_hot = place >= hot;
  const Placement& own = is_hot ? split_->hot : split_->cold;
  const auto [field, number] = own.row_at(own.group_of_rank(rank), is_hot ? place - hot : place);
  const HotSet& rows = split_->hot_rows;
  return {field, is_hot ? rows.hot_row(number) : rows.cold_row(number)};
}

std::size_t TablePlacement::rows(int rank) const {
  const Part& last = parts(rank).back();
  return std::size_t{last.first} + last.rows;
}

std::size_t TablePlacement::floats(int rank) const {
  std::size_t floats = 0;
  for (const Part& part : parts(rank)) floats += part.rows * part.stride;
  return floats;
}

}  // namespace hetsgd
