#include "core/interval_set.hpp"

#include <utility>

namespace hetsgd {
namespace {

using Gaps = std::vector<std::pair<double, double>>;

Gaps gaps(const IntervalSet& set, double begin, double end) {
  Gaps found;
  set.each_gap(begin, end, [&](double from, double to) { found.emplace_back(from, to); });
  return found;
}

TEST(IntervalSet, CountsWhatWasNotCovered) {
  IntervalSet set;
  EXPECT_EQ(set.add(1, 3), 2);
  EXPECT_EQ(set.add(5, 7), 2);
  EXPECT_EQ(set.add(2, 6), 2);  // joins both
  EXPECT_EQ(set.add(0, 8), 2);
  EXPECT_EQ(set.add(4, 4), 0);
  EXPECT_EQ(set.add(10, 11), 1);
  EXPECT_EQ(set.length(), 9);
  EXPECT_EQ(gaps(set, -1, 12), (Gaps{{-1, 0}, {8, 10}, {11, 12}}));
  EXPECT_EQ(gaps(set, 2, 5), Gaps{});
}

TEST(IntervalSet, ForgetsTheOldestParts) {
  IntervalSet set(4);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(set.add(2 * i, 2 * i + 1), 1);
  EXPECT_EQ(set.length(), 100);
  EXPECT_EQ(set.add(1, 2), 0);  // before what is kept
  EXPECT_EQ(set.add(197, 198), 1);
}

}  // namespace
}  // namespace hetsgd
