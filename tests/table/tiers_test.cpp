// The choice of the rows that lie on the device.
#include "table/tiers.hpp"

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

Tiers replacing(double fraction, std::uint64_t every) {
  Tiers tiers = hybrid(fraction, HotRows::random);
  tiers.replace_every = every;
  return tiers;
}

std::vector<Index> all_places() {
  std::vector<Index> places(20);
  std::iota(places.begin(), places.end(), Index{0});
  return places;
}

std::vector<Index> on_device(const DeviceRows& rows) {
  std::vector<Index> found;
  for (const Index place : all_places()) {
    if (rows.count(std::span(&place, 1)) == 1) found.push_back(place);
  }
  return found;
}

// Every second update, and only for rows that are asked for more often than those on the device:
// five rows of 20.
TEST(Tiers, RowsThatAreAskedForChangePlacesWithOthers) {
  DeviceRows rows(replacing(0.25, 2), two_ranks(), 0);
  const std::vector<Index> before = on_device(rows);
  ASSERT_EQ(before.size(), 5U);
  EXPECT_EQ(rows.end_update(), 0U);
  EXPECT_EQ(rows.end_update(), 0U);  // nothing was asked for: all stay
  EXPECT_EQ(on_device(rows), before);

  std::vector<Index> cold;  // the first three that are not there
  for (const Index place : all_places()) {
    if (cold.size() < 3 && std::ranges::find(before, place) == before.end()) cold.push_back(place);
  }
  rows.asked_for(cold);
  EXPECT_EQ(rows.end_update(), 0U);
  EXPECT_EQ(on_device(rows), before);
  EXPECT_EQ(rows.end_update(), 3U);
  std::vector<Index> expected = cold;
  expected.insert(expected.end(), before.begin(), before.begin() + 2);  // the lower places stay
  std::ranges::sort(expected);
  EXPECT_EQ(on_device(rows), expected);
  EXPECT_EQ(rows.count(all_places()), 5U);
}

// The old row is asked for 4 times, then never: its count is 2, 1, 0 at the next rankings. A row
// that is asked for once per ranking has 1, 1, 1 (halves are dropped). So at equal counts the old
// row stays, and then leaves.
TEST(Tiers, CountsFade) {
  DeviceRows rows(replacing(0.05, 1), two_ranks(), 0);  // one row of 20
  const std::vector<Index> old = {7, 7, 7, 7}, fresh = {3};
  rows.asked_for(old);
  rows.end_update();
  EXPECT_EQ(on_device(rows), std::vector<Index>{7});
  rows.asked_for(fresh);
  EXPECT_EQ(rows.end_update(), 0U);  // 2 beside 1
  rows.asked_for(fresh);
  EXPECT_EQ(rows.end_update(), 0U);  // 1 beside 1
  rows.asked_for(fresh);
  EXPECT_EQ(rows.end_update(), 1U);  // 0 beside 1
  EXPECT_EQ(on_device(rows), fresh);
}

TEST(Tiers, WithoutReplacementTheChoiceStays) {
  DeviceRows rows(hybrid(0.25, HotRows::frequency), two_ranks(), 0);
  const std::vector<Index> before = on_device(rows);
  rows.asked_for(all_places());
  for (int update = 0; update < 5; ++update) EXPECT_EQ(rows.end_update(), 0U);
  EXPECT_EQ(on_device(rows), before);
}

}  // namespace
}  // namespace hetsgd::test
