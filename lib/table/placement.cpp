#include "table/placement.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/error.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kQuad = 4;  // numbers: 16 bytes, below which every access is waste

// The groups of the fields that are placed as a whole, largest load first to the least loaded rank.
// The lower field and the lower rank win ties.
void place_whole(std::span<const double> load, const std::vector<std::size_t>& fields,
                 std::vector<double> of_rank, std::vector<std::uint32_t>& owner) {
  std::vector<std::size_t> order = fields;
  std::ranges::stable_sort(order, [&](auto a, auto b) { return load[a] > load[b]; });
  for (const std::size_t field : order) {
    const auto least = std::ranges::min_element(of_rank);
    *least += load[field];
    owner[field] = static_cast<std::uint32_t>(least - of_rank.begin());
  }
}

// Parses "column:2"; none: another text.
std::optional<Sharding> parse_column(const std::string& text) {
  constexpr std::string_view kColumn = "column:";
  if (!text.starts_with(kColumn)) return {};
  Sharding sharding{Sharding::Kind::column};
  const char *const begin = text.data() + kColumn.size(), *const end = text.data() + text.size();
  const auto read = std::from_chars(begin, end, sharding.slices);
  if (read.ec != std::errc() || read.ptr != end || sharding.slices < 1) return {};
  return sharding;
}

}  // namespace

std::string Sharding::text() const {
  switch (kind) {
    case Kind::row:
      return "row";
    case Kind::table:
      return "table";
    case Kind::column:
      return fmt::format("column:{}", slices);
    case Kind::automatic:
      break;
  }
  return "auto";
}

Sharding parse_sharding(const std::string& text) {
  using Kind = Sharding::Kind;
  for (const Kind kind : {Kind::row, Kind::table, Kind::automatic}) {
    if (text == Sharding{kind}.text()) return {kind};
  }
  if (const auto sharding = parse_column(text)) return *sharding;
  refuse("--sharding", text, "row, table, column:c or auto",
         "column:2 gives half of every row to each of two ranks");
}

Placement::Placement(std::vector<Index> first, std::size_t width, int ranks,
                     const Sharding& sharding, std::span<const double> load)
    : first_(std::move(first)),
      width_(width),
      ranks_(ranks),
      slices_(sharding.slices),
      groups_(ranks / sharding.slices) {
  HETSGD_CHECK_LT(1U, first_.size());
  const std::size_t quads = (width + kQuad - 1) / kQuad;
  if (ranks % slices_ != 0) {
    refuse("--sharding", fmt::format("{} with {} workers", sharding.text(), ranks),
           "a number of slices that divides the number of workers");
  }
  if (static_cast<std::size_t>(slices_) > quads) {
    refuse("--sharding", fmt::format("{} with rows of {} elements", sharding.text(), width),
           fmt::format("at most {} slices, each of a multiple of four elements", quads),
           "a larger --embedding-dim allows more");
  }
  owner_.assign(fields(), kCyclic);
  place_fields(sharding, load);
  const auto groups = static_cast<std::size_t>(groups_);
  base_.assign((fields() + 1) * groups, 0);
  for (std::size_t f = 0; f < fields(); ++f) {
    for (std::size_t g = 0; g < groups; ++g) {
      base_[(f + 1) * groups + g] = base(f, g) + rows_of_field(f, g);
    }
  }
}

void Placement::place_fields(const Sharding& sharding, std::span<const double> load) {
  using Kind = Sharding::Kind;
  if (sharding.kind != Kind::table && sharding.kind != Kind::automatic) return;
  HETSGD_CHECK_EQ(load.size(), fields());
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / ranks_;
  std::vector<std::size_t> whole;
  double spread = 0;  // of each rank, by the fields that all have a part of
  for (std::size_t f = 0; f < fields(); ++f) {
    if (sharding.kind == Kind::table || load[f] < mean / 2) {
      whole.push_back(f);
    } else {
      spread += load[f] / ranks_;
    }
  }
  place_whole(load, whole, std::vector<double>(static_cast<std::size_t>(ranks_), spread), owner_);
}

// Counts the indices i with (f + i) mod groups == g (cyclic).
Index Placement::rows_of_field(std::size_t field, std::size_t group) const {
  const Index rows = first_[field + 1] - first_[field];
  if (owner_[field] != kCyclic) return owner_[field] == group ? rows : 0;
  const auto groups = static_cast<std::size_t>(groups_);
  const std::size_t begin = first_index(field, group);
  return begin < rows ? static_cast<Index>((rows - begin - 1) / groups + 1) : 0;
}

std::size_t Placement::first_index(std::size_t field, std::size_t group) const {
  const auto groups = static_cast<std::size_t>(groups_);
  return (group + groups - field % groups) % groups;
}

Placement::Columns Placement::columns(int rank) const {
  const auto slices = static_cast<std::size_t>(slices_);
  const auto slice = static_cast<std::size_t>(rank % slices_);
  const std::size_t quads = (width_ + kQuad - 1) / kQuad;
  const std::size_t each = quads / slices, more = quads % slices;
  const std::size_t begin = slice * each + std::min(slice, more);
  const std::size_t end = begin + each + (slice < more ? 1 : 0);
  return {begin * kQuad, std::min(end * kQuad, width_)};
}

std::size_t Placement::field_of(Index row) const {
  const auto after = std::upper_bound(first_.begin() + 1, first_.end() - 1, row);
  return static_cast<std::size_t>(after - first_.begin()) - 1;
}

std::size_t Placement::rows(int rank) const {
  return base(fields(), static_cast<std::size_t>(group_of_rank(rank)));
}

Placement::Row Placement::row_at(int group, Index place) const {
  const auto g = static_cast<std::size_t>(group);
  // The last field whose rows begin at this row or before; among fields without rows the last.
  std::size_t low = 0, high = fields();
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (base(middle, g) <= place ? low : high) = middle;
  }
  const Index number = place - base(low, g);
  if (owner_[low] != kCyclic) return {low, first_[low] + number};
  const std::size_t index =
      first_index(low, g) + std::size_t{number} * static_cast<std::size_t>(groups_);
  return {low, first_[low] + static_cast<Index>(index)};
}

}  // namespace hetsgd
