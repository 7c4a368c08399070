// Hot rows in a layout of their own, the others in another: every row whole in one place of each of
// its ranks, none twice.
#include "table/table_placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "core/random.hpp"
#include "table/tiers.hpp"

namespace hetsgd::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Fields of 1, 50, 7, 0 and 130 rows: more than two words of bits.
const std::vector<Index> kHotFirst = {0, 1, 51, 58, 58, 188};
const std::vector<double> kHotLoad = {1, 50, 7, 0, 30};
constexpr std::size_t kHotWidth = 17;

std::vector<bool> some_rows(double share, std::size_t rows = 188) {
  RandomStream random(5, Purpose::test);
  std::vector<bool> hot(rows);
  for (std::size_t row = 0; row < rows; ++row) hot[row] = random.uniform(0, 1) < share;
  return hot;
}

Placement one_layout(const std::string& sharding, int ranks) {
  return Placement(kHotFirst, kHotWidth, ranks, parse_sharding(sharding, "--sharding"), kHotLoad);
}

TablePlacement two_layouts(const std::string& sharding, const std::string& hot_sharding, int ranks,
                           const std::vector<bool>& hot) {
  return TablePlacement(one_layout(sharding, ranks), parse_sharding(sharding, "--sharding"),
                        kHotLoad, hot, *parse_hot_sharding(hot_sharding));
}

TEST(HotSet, NumbersRowsOfEitherKindAndFindsThemAgain) {
  for (const std::size_t rows : {1U, 63U, 64U, 65U, 128U, 300U}) {
    for (const double share : {0.0, 0.1, 0.5, 0.97, 1.1}) {
      SCOPED_TRACE(fmt::format("{} rows, {}", rows, share));
      const std::vector<bool> hot = some_rows(share, rows);
      const HotSet set(hot);
      Index before = 0;
      for (Index row = 0; row < rows; ++row) {
        EXPECT_EQ(set.contains(row), hot[row]);
        EXPECT_EQ(set.before(row), before);
        EXPECT_EQ(hot[row] ? set.hot_row(before) : set.cold_row(row - before), row);
        if (hot[row]) ++before;
      }
      EXPECT_EQ(set.before(static_cast<Index>(rows)), before);
    }
  }
}

// Its slices are all columns, one after the other; at each of their places the row is found again.
void expect_whole(const TablePlacement& placement, std::size_t field, Index row,
                  std::vector<std::set<Index>>& places) {
  EXPECT_EQ(placement.field_of(row), field);
  const Placement::Place at = placement.place_of(field, row);
  ASSERT_LT(at.group, placement.groups());
  std::size_t columns = 0;
  placement.for_each_slice(field, row, [&](int rank, Index place, const Placement::Columns& own) {
    EXPECT_EQ(own.begin, columns);
    columns = own.end;
    EXPECT_TRUE(places[static_cast<std::size_t>(rank)].insert(place).second);
    const Placement::Row back = placement.row_at(rank, place);
    EXPECT_EQ(back.field, field);
    EXPECT_EQ(back.row, row);
    const auto parts = placement.parts(rank);
    const auto part = std::ranges::find(parts, std::size_t{at.group}, &TablePlacement::Part::group);
    ASSERT_NE(part, parts.end());
    EXPECT_EQ(part->first + at.place, place);
    EXPECT_LT(at.place, part->rows);
  });
  EXPECT_EQ(columns, kHotWidth);
}

void expect_all_whole(const TablePlacement& placement) {
  std::vector<std::set<Index>> places(static_cast<std::size_t>(placement.ranks()));
  for (std::size_t field = 0; field < placement.fields(); ++field) {
    for (Index row = kHotFirst[field]; row < kHotFirst[field + 1]; ++row) {
      expect_whole(placement, field, row, places);
    }
  }
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    const auto& own = places[static_cast<std::size_t>(rank)];
    EXPECT_EQ(placement.rows(rank), own.size());
    EXPECT_TRUE(own.empty() || *own.rbegin() == own.size() - 1);
  }
}

TEST(TablePlacement, EveryRowIsWholeAndPlacesHaveNoGaps) {
  for (const char* sharding : {"row", "table", "auto", "column:2"}) {
    expect_all_whole(one_layout(sharding, 4));
    for (const char* hot : {"column:1", "column:2", "column:4"}) {
      for (const double share : {0.0, 0.2, 0.8, 1.1}) {
        SCOPED_TRACE(fmt::format("{}, hot {} {}", sharding, hot, share));
        expect_all_whole(two_layouts(sharding, hot, 4, some_rows(share)));
      }
    }
  }
}

// Of each field and kind the groups have as many rows, or one more; hot ones are on the ranks' last
// places. Every second row is hot: by their own numbers, dealt row by row, two ranks of four would
// have them all.
TEST(TablePlacement, HotRowsAreDealtEvenlyWhicheverTheyAre) {
  std::vector<bool> hot(188);
  for (std::size_t row = 0; row < hot.size(); row += 2) hot[row] = true;
  const TablePlacement placement = two_layouts("row", "column:1", 4, hot);
  for (int rank = 0; rank < 4; ++rank) {
    const auto parts = placement.parts(rank);
    EXPECT_NEAR(static_cast<double>(parts[0].rows), 94.0 / 4, 2);
    EXPECT_NEAR(static_cast<double>(parts[1].rows), 94.0 / 4, 2);
    EXPECT_EQ(parts[1].first, parts[0].rows);
    for (Index place = 0; place < placement.rows(rank); ++place) {
      EXPECT_EQ(hot[placement.row_at(rank, place).row], place >= parts[1].first);
    }
  }
}

// None: all lie as --sharding says. All: as column:c does.
TEST(TablePlacement, ItsEndsAreOneLayout) {
  const TablePlacement none = two_layouts("table", "column:2", 4, std::vector<bool>(188, false));
  const TablePlacement all = two_layouts("table", "column:2", 4, std::vector<bool>(188, true));
  const Placement table = one_layout("table", 4), column = one_layout("column:2", 4);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(none.floats(rank), table.floats(rank));
    EXPECT_EQ(all.floats(rank), column.floats(rank));
  }
  for (std::size_t field = 0; field < kHotLoad.size(); ++field) {
    for (Index row = kHotFirst[field]; row < kHotFirst[field + 1]; ++row) {
      const auto cold = none.place_of(field, row), hot = all.place_of(field, row);
      EXPECT_EQ(cold.group, table.place_of(field, row).group);
      EXPECT_EQ(cold.place, table.place_of(field, row).place);
      EXPECT_EQ(hot.group, 4 + column.place_of(field, row).group);
      EXPECT_EQ(hot.place, column.place_of(field, row).place);
    }
  }
}

// 17 numbers are 5 quads: slices of 12 and 5 numbers, stored as 12 and 8.
TEST(TablePlacement, ARankHasPartsOfTwoWidths) {
  const TablePlacement placement = two_layouts("row", "column:2", 4, some_rows(0.5));
  for (int rank = 0; rank < 4; ++rank) {
    const auto parts = placement.parts(rank);
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_EQ(parts[0].columns.size(), 17U);
    EXPECT_EQ(parts[0].stride, 20U);
    EXPECT_EQ(parts[0].group, static_cast<std::size_t>(rank));
    EXPECT_EQ(parts[1].columns.size(), rank % 2 == 0 ? 12U : 5U);
    EXPECT_EQ(parts[1].stride, rank % 2 == 0 ? 12U : 8U);
    EXPECT_EQ(parts[1].group, 4U + static_cast<std::size_t>(rank) / 2);
    EXPECT_EQ(placement.floats(rank), parts[0].rows * 20U + parts[1].rows * parts[1].stride);
  }
  EXPECT_EQ(placement.groups(), 6U);
  EXPECT_FALSE(placement.whole_rows());
}

// The choice is among all rows: two ranks of three have none of the most frequent ones.
TEST(TablePlacement, TheMostFrequentOfAllRowsAreHot) {
  auto counts = std::make_shared<std::vector<std::uint32_t>>(188, 1);
  for (std::size_t row = 3; row < 30; row += 3) (*counts)[row] = 7;  // 9 rows
  Tiers tiers{.storage = TableStorage::hybrid, .hot_fraction = 12.5 / 188, .counts = counts};
  const std::vector<bool> hot = hot_rows_of_all(tiers, 188);
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < hot.size(); ++row) {
    if (hot[row]) rows.push_back(row);
  }
  EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27));
  tiers.choice = HotRows::random;
  EXPECT_EQ(std::ranges::count(hot_rows_of_all(tiers, 188), true), 12);
  EXPECT_NE(hot_rows_of_all(tiers, 188), hot);

  const TablePlacement placement = two_layouts("row", "column:2", 4, hot);
  for (int rank = 0; rank < 4; ++rank) {
    const DeviceRows device(tiers, placement, rank);
    for (Index place = 0; place < placement.rows(rank); ++place) {
      EXPECT_EQ(device.count(std::span(&place, 1)), hot[placement.row_at(rank, place).row]);
    }
  }
}

std::string hot_layout_error(const std::string& hot_sharding, int ranks) {
  try {
    two_layouts("row", hot_sharding, ranks, some_rows(0.5));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TablePlacement, RefusesHotLayoutsThatDoNotFit) {
  EXPECT_EQ(parse_hot_sharding("same"), std::nullopt);
  EXPECT_THAT(hot_layout_error("column:2", 3),
              HasSubstr("--hot-sharding: found column:2 with 3 workers, expected a divisor"));
  EXPECT_THAT(hot_layout_error("column:6", 6), HasSubstr("--hot-sharding: found column:6 where"));
  for (const char* text : {"row", "table", "auto", "column:0", "column", "column:2x", ""}) {
    EXPECT_THAT(hot_layout_error(text, 2), HasSubstr("expected same or column:c"));
  }
}

}  // namespace
}  // namespace hetsgd::test
