// Which rows lie on the device.
#include "table/tiers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace hetsgd::test {
namespace {

const std::vector<Index> kTierFirst = {0, 10, 40};

Placement two_ranks() { return Placement(kTierFirst, 8, 2, {Sharding::Kind::row}, {}); }

Tiers hybrid(double fraction, HotRows choice) {
  Tiers tiers{.storage = TableStorage::hybrid, .hot_fraction = fraction, .choice = choice};
  auto counts = std::make_shared<std::vector<std::uint32_t>>(40);
  // Row 39 most often, then 38, ...; of the rows below 10 all alike.
  for (Index row = 0; row < 40; ++row) (*counts)[row] = row < 10 ? 5 : row;
  tiers.counts = counts;
  return tiers;
}

// 20 rows of each rank: a quarter are 5. Rank 0 has the rows 10 + i of field 1 with odd i.
TEST(Tiers, TheMostFrequentRowsOfEachRankLieOnItsDevice) {
  const Placement placement = two_ranks();
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<bool> hot = hot_rows(hybrid(0.25, HotRows::frequency), placement, rank);
    ASSERT_EQ(hot.size(), 20U);
    std::vector<Index> rows;
    for (Index place = 0; place < hot.size(); ++place) {
      if (hot[place]) rows.push_back(placement.row_at(rank, place).row);
    }
    const Index last =
        placement.place_of(1, 39).group == static_cast<std::uint32_t>(rank) ? 39 : 38;
    EXPECT_EQ(rows, (std::vector<Index>{last - 8, last - 6, last - 4, last - 2, last}));
  }
}

TEST(Tiers, EquallyFrequentRowsAreTakenInTheirOrder) {
  Tiers tiers = hybrid(0.5, HotRows::frequency);
  tiers.counts = std::make_shared<std::vector<std::uint32_t>>(40, 3);
  const std::vector<bool> hot = hot_rows(tiers, two_ranks(), 1);
  for (std::size_t place = 0; place < hot.size(); ++place) EXPECT_EQ(hot[place], place < 10);
}

TEST(Tiers, AnyRowsAreAsManyAndOthers) {
  const std::vector<bool> any = hot_rows(hybrid(0.25, HotRows::random), two_ranks(), 0);
  EXPECT_EQ(std::ranges::count(any, true), 5);
  EXPECT_NE(any, hot_rows(hybrid(0.25, HotRows::frequency), two_ranks(), 0));
  Tiers other = hybrid(0.25, HotRows::random);
  other.seed = 2;
  EXPECT_NE(any, hot_rows(other, two_ranks(), 0));
}

TEST(Tiers, EndsAreAllAndNone) {
  EXPECT_EQ(hybrid(0, HotRows::frequency).on_device(20), 0U);
  EXPECT_EQ(hybrid(1, HotRows::frequency).on_device(20), 20U);
  EXPECT_EQ(hybrid(0.14, HotRows::frequency).on_device(20), 2U);
  EXPECT_EQ((Tiers{.storage = TableStorage::device}.on_device(20)), 20U);
  EXPECT_EQ((Tiers{.storage = TableStorage::host}.on_device(20)), 0U);
  EXPECT_TRUE(hot_rows({.storage = TableStorage::host}, two_ranks(), 0).empty());
}

}  // namespace
}  // namespace hetsgd::test
