// Placement of rows: every row is in one place, none twice, by every layout.
#include "table/placement.hpp"

#include "support/failure.hpp"

namespace hetsgd::test {
namespace {

// Fields of 1, 50, 7, 0 and 30 rows.
const std::vector<Index> kFirst = {0, 1, 51, 58, 58, 88};
const std::vector<double> kLoad = {1, 50, 7, 0, 30};

Placement placed(const std::string& sharding, int ranks, std::size_t width = 17) {
  return Placement(kFirst, width, ranks, parse_sharding(sharding), kLoad);
}

TEST(Placement, EveryRowHasOnePlaceAndPlacesHaveNoGaps) {
  for (const char* sharding : {"row", "table", "auto", "column:1", "column:2"}) {
    for (const int ranks : {1, 2, 4, 6}) {
      if (std::string(sharding) == "column:2" && ranks == 1) continue;
      SCOPED_TRACE(std::string(sharding) + ", " + std::to_string(ranks));
      const Placement placement = placed(sharding, ranks);
      std::vector<std::set<Index>> places(static_cast<std::size_t>(placement.groups()));
      for (std::size_t field = 0; field < placement.fields(); ++field) {
        for (Index row = kFirst[field]; row < kFirst[field + 1]; ++row) {
          EXPECT_EQ(placement.field_of(row), field);
          const auto [group, place] = placement.place_of(field, row);
          ASSERT_LT(group, places.size());
          EXPECT_TRUE(places[group].insert(place).second);
          const Placement::Row back = placement.row_at(static_cast<int>(group), place);
          EXPECT_EQ(back.field, field);
          EXPECT_EQ(back.row, row);
        }
      }
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& own = places[static_cast<std::size_t>(placement.group_of_rank(rank))];
        EXPECT_EQ(placement.rows(rank), own.size());
        EXPECT_TRUE(own.empty() || *own.rbegin() == own.size() - 1);
      }
    }
  }
}

// (f + i) mod 3: the first rows, the hot ones, of neighbouring fields go to different ranks, and no
// rank has more than one row of a field beyond its third.
TEST(Placement, RowsAreDealtInTurn) {
  const Placement placement = placed("row", 3);
  EXPECT_EQ(placement.place_of(0, 0).group, 0U);
  EXPECT_EQ(placement.place_of(1, 1).group, 1U);
  EXPECT_EQ(placement.place_of(1, 2).group, 2U);
  EXPECT_EQ(placement.place_of(1, 3).group, 0U);
  EXPECT_EQ(placement.place_of(2, 51).group, 2U);
  EXPECT_EQ(placement.rows(0) + placement.rows(1) + placement.rows(2), 88U);
}

// Loads 50, 30, 7, 1, 0 on three ranks: 0 gets 50, 1 gets 30, 2 gets 7, then 1 and 0.
TEST(Placement, WholeTablesGoToTheLeastLoadedRank) {
  const Placement placement = placed("table", 3);
  const auto owner = [&](std::size_t field) {
    return placement.place_of(field, kFirst[field]).group;
  };
  EXPECT_EQ(owner(1), 0U);
  EXPECT_EQ(owner(4), 1U);
  EXPECT_EQ(owner(2), 2U);
  EXPECT_EQ(owner(0), 2U);
  EXPECT_EQ(placement.rows(0), 50U);
  EXPECT_EQ(placement.rows(1), 30U);
  EXPECT_EQ(placement.rows(2), 8U);
}

// The mean load of two ranks is 44: fields of 50 and 30 are above half of it and are dealt by rows,
// those of 7, 1 and 0 stay whole.
TEST(Placement, AutomaticDealsOnlyTheLargeTables) {
  const Placement placement = placed("auto", 2);
  const auto owners = [&](std::size_t field) {
    std::set<std::uint32_t> all;
    for (Index row = kFirst[field]; row < kFirst[field + 1]; ++row) {
      all.insert(placement.place_of(field, row).group);
    }
    return all;
  };
  EXPECT_THAT(owners(1), ElementsAre(0U, 1U));
  EXPECT_THAT(owners(4), ElementsAre(0U, 1U));
  EXPECT_THAT(owners(2), ElementsAre(0U));
  EXPECT_THAT(owners(0), ElementsAre(1U));
}

// 17 numbers are 5 quads, the last with one number: 3 quads and 2 of them, or 2, 1, 1 and 1.
TEST(Placement, SlicesAreWholeQuads) {
  const Placement two = placed("column:2", 4);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(two.columns(rank).begin, 0U);
    EXPECT_EQ(two.columns(rank).end, 12U);
    EXPECT_EQ(two.columns(rank + 1).begin, 12U);
    EXPECT_EQ(two.columns(rank + 1).end, 17U);
    EXPECT_EQ(two.stride(rank + 1), 8U);
    EXPECT_EQ(two.group_of_rank(rank), rank / 2);
    EXPECT_EQ(two.rows(rank), two.rows(rank + 1));
  }
  const Placement four = placed("column:4", 4);
  std::vector<std::size_t> sizes;
  for (int rank = 0; rank < 4; ++rank) sizes.push_back(four.columns(rank).size());
  EXPECT_THAT(sizes, ElementsAre(8U, 4U, 4U, 1U));
  EXPECT_EQ(placed("row", 2).stride(0), 20U);
}

std::string placement_error(const std::string& sharding, int ranks, std::size_t width) {
  return usage_error_of([&] { placed(sharding, ranks, width); });
}

TEST(Placement, RefusesLayoutsThatDoNotFit) {
  EXPECT_THAT(placement_error("column:2", 3, 17),
              HasSubstr("--sharding: found column:2 with 3 workers, expected a number"));
  EXPECT_THAT(placement_error("column:4", 4, 12), HasSubstr("at most 3 slices"));
  for (const char* text : {"rows", "column", "column:0", "column:2x", ""}) {
    EXPECT_THAT(placement_error(text, 2, 17), HasSubstr("expected row, table, column:c or auto"));
  }
}

}  // namespace
}  // namespace hetsgd::test
