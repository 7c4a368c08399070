// The choice of evicted rows: against a list of all weights, and in the limits that are other
// rules.
#include "table/replacement.hpp"

#include "core/random.hpp"
#include "support/failure.hpp"

namespace hetsgd::test {
namespace {

constexpr std::size_t kPlaces = 60, kSlots = 20;

// The lookups of one update: distinct places with their samples.
struct Touch {
  Index place;
  std::uint32_t positives, negatives;
};
std::vector<Touch> draw_touches(std::uint64_t update, std::size_t count) {
  RandomStream random(9, Purpose::test, update);
  std::set<Index> places;
  // Some places are hot.
  while (places.size() < count) {
    const double u = random.uniform();
    places.insert(static_cast<Index>(u * u * kPlaces));
  }
  std::vector<Touch> touches;
  for (const Index place : places) {
    const auto positives = static_cast<std::uint32_t>(random.below(3));
    const auto negatives = static_cast<std::uint32_t>(random.below(4));
    touches.push_back({place, positives, positives + negatives == 0 ? 1 : negatives});
  }
  return touches;
}

void run_update(Replacement& replacement, const std::vector<Touch>& touches) {
  for (const Touch& touch : touches) replacement.pin(touch.place);
  replacement.begin_update();
  for (const Touch& t : touches) replacement.touch(t.place, t.positives, t.negatives);
  replacement.settle();
}

std::set<Index> kept_places(const Replacement& replacement) {
  std::set<Index> places;
  for (Index place = 0; place < kPlaces; ++place) {
    if (replacement.slot_of(place)) places.insert(place);
  }
  return places;
}

// Equation 6.3 written out: every weight decays at every update.
TEST(Replacement, TheLeastImportantRowGoes) {
  for (const double beta : {0.001, 0.05, 0.2}) {
    const ReplacementOptions options{.capacity = kSlots, .decay = beta};
    Replacement replacement(options, 1, kPlaces, kSlots);
    std::map<Index, double> weight;
    std::uint64_t evicted = 0;
    for (std::uint64_t update = 0; update < 200; ++update) {
      const std::vector<Touch> touches = draw_touches(update, 6);
      std::set<Index> pinned;
      for (const Touch& touch : touches) {
        pinned.insert(touch.place);
        if (weight.contains(touch.place)) continue;
        if (weight.size() == kSlots) {
          auto least = weight.end();
          for (auto at = weight.begin(); at != weight.end(); ++at) {
            if (pinned.contains(at->first)) continue;
            if (least == weight.end() || at->second < least->second) least = at;
          }
          weight.erase(least);
          ++evicted;
        }
        weight[touch.place] = 0;
      }
      for (auto& [place, w] : weight) w *= 1 - beta;
      for (const Touch& t : touches) {
        weight[t.place] += beta * (t.positives * 1.0 + t.negatives * 0.1);
      }
      run_update(replacement, touches);
      std::set<Index> expected;
      for (const auto& [place, w] : weight) expected.insert(place);
      ASSERT_EQ(kept_places(replacement), expected) << "beta " << beta << ", update " << update;
    }
    EXPECT_EQ(replacement.evicted(), evicted);
    EXPECT_GT(evicted, 100U);
  }
}

// Clicks and their absence count alike. With a memory of 1e-15 from one update to the next only the
// last touch counts. There is one row per update, since weights that differ by 1e-15 are no ties to
// lru. With next to no decay (1e-12) the importance is the sum of the samples; they are drawn so
// that no two sums are alike.
TEST(Replacement, ImportanceIsRecencyOrFrequencyInItsLimits) {
  const auto expect_same = [](double beta, Evict rule, std::uint64_t updates, std::size_t rows,
                              std::uint64_t most_samples) {
    const ReplacementOptions importance{
        .capacity = kSlots, .decay = beta, .positive = 1, .negative = 1};
    ReplacementOptions other = importance;
    other.evict = rule;
    Replacement a(importance, 1, kPlaces, kSlots), b(other, 1, kPlaces, kSlots);
    for (std::uint64_t update = 0; update < updates; ++update) {
      std::vector<Touch> touches = draw_touches(update, rows);
      RandomStream random(4, Purpose::test, update);
      for (Touch& touch : touches) {
        touch = {touch.place, static_cast<std::uint32_t>(1 + random.below(most_samples)), 0};
      }
      run_update(a, touches);
      run_update(b, touches);
      ASSERT_EQ(kept_places(a), kept_places(b)) << "update " << update;
    }
    EXPECT_GT(a.evicted(), 100U);
  };
  expect_same(1 - 1e-15, Evict::lru, 600, 1, 1);
  expect_same(1e-12, Evict::lfu, 200, 6, 1'000'000);
}

TEST(Replacement, PinnedRowsStay) {
  Replacement replacement({.capacity = 3, .evict = Evict::lru}, 1, 10, 3);
  const auto update = [&](std::initializer_list<Index> places) {
    replacement.begin_update();
    for (const Index place : places) replacement.touch(place, 1, 0);
    replacement.settle();
  };
  for (const Index place : {0U, 1U, 2U}) EXPECT_TRUE(replacement.pin(place).fresh);
  EXPECT_FALSE(replacement.pin(0).fresh);  // by two lookups
  EXPECT_THAT(failure_of([&] { replacement.pin(3); }).message,
              testing::StartsWith("--table-capacity"));
  update({0});  // the first of them
  update({1, 2});
  EXPECT_TRUE(replacement.pin(3).fresh);  // in place of 1: 0 is older, and pinned still
  EXPECT_TRUE(replacement.slot_of(0).has_value());
  EXPECT_FALSE(replacement.slot_of(1).has_value());
  EXPECT_EQ(replacement.evicted(), 1U);
}

TEST(Replacement, CapacityIsDividedAsTheRowsAre) {
  const ReplacementOptions options{.capacity = 100};
  EXPECT_EQ(options.slots(50, 200), 25U);
  EXPECT_EQ(options.slots(1, 1000), 1U);
  EXPECT_EQ(options.slots(0, 1000), 0U);
  EXPECT_EQ(options.slots(50, 60), 50U);
  EXPECT_EQ(ReplacementOptions().slots(50, 200), 50U);
}

}  // namespace
}  // namespace hetsgd::test
