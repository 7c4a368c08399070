#include "result/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace hetsgd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Values = std::vector<double>;

TEST(Median, OfOddAndEvenCounts) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(std::vector<double>{1, kInfinity, kInfinity}), kInfinity);
  EXPECT_EQ(median(std::vector<double>{1, 2, kInfinity}), 2);
  EXPECT_EQ(median(std::vector<double>{1, kInfinity}), kInfinity);
}

// The median of a resample of n (odd) is at most the k-th smallest value exactly if at least
// (n+1)/2 of the draws are among the k smallest: P_k = P(Bin(n, k/n) >= (n+1)/2). The interval's
// lower end is the smallest k with P_k > 2.5 %:
//   n = 5:  P_1 = 0.0579                 -> 1      n = 7:  P_1 = 0.0102, P_2 = 0.1083 -> 2
//   n = 11: P_2 = 0.0072, P_3 = 0.0512   -> 3      n = 21: P_6 = 0.0183, P_7 = 0.0557 -> 7
// By symmetry the upper end is the same counted from above.
TEST(BootstrapMedian, EndsAreTheOrderStatisticsOfTheBinomialLaw) {
  for (const auto& [n, k] :
       std::vector<std::pair<int, int>>{{1, 1}, {3, 1}, {5, 1}, {7, 2}, {11, 3}, {21, 7}}) {
    std::vector<double> values;
    for (int i = n; i >= 1; --i) values.push_back(i);
    const Interval interval = bootstrap_median(values);
    EXPECT_EQ(interval.median, (n + 1) / 2) << n;
    EXPECT_EQ(interval.low, k) << n;
    EXPECT_EQ(interval.high, n + 1 - k) << n;
  }
}

// For n = 2 the median is a, (a+b)/2, b with probability 1/4, 1/2, 1/4.
TEST(BootstrapMedian, OfTwoIsTheirRange) {
  const Interval interval = bootstrap_median(std::vector<double>{1, 4});
  EXPECT_EQ(interval.median, 2.5);
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 4);
}

TEST(BootstrapMedian, MissedTargetsCountAsInfinity) {
  const Interval interval = bootstrap_median(std::vector<double>{1, 2, 3, 4, kInfinity});
  EXPECT_EQ(interval.median, 3);
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, kInfinity);
}

TEST(RatioOfTimes, OfMissedAndImmediateTargets) {
  EXPECT_EQ(ratio_of_times(4, 2), 2);
  EXPECT_EQ(ratio_of_times(kInfinity, 2), kInfinity);
  EXPECT_EQ(ratio_of_times(2, kInfinity), 0);
  EXPECT_EQ(ratio_of_times(0, 0), 1);
  EXPECT_TRUE(std::isnan(ratio_of_times(kInfinity, kInfinity)));
}

// With two values per side the medians are the lower, the mean and the upper one with probability
// 1/4, 1/2, 1/4; the extreme ratios have probability 1/16 > 2.5 % and are the ends.
TEST(BootstrapRatio, OfTwoAndTwoIsTheirRange) {
  const Interval interval = bootstrap_ratio(Values{6, 10}, Values{1, 4});
  EXPECT_EQ(interval.median, 3.2);
  EXPECT_EQ(interval.low, 1.5);
  EXPECT_EQ(interval.high, 10);
}

TEST(BootstrapRatio, MissedTargetsWidenTheInterval) {
  // The denominator's median is infinite in some resamples: the ratio then is 0.
  const Interval some = bootstrap_ratio(Values{2, 2, 2}, Values{1, 1, kInfinity});
  EXPECT_EQ(some.median, 2);
  EXPECT_EQ(some.low, 0);
  EXPECT_EQ(some.high, 2);
  // Both infinite at once says nothing about the ratio.
  const Interval both = bootstrap_ratio(Values{2, 2, kInfinity}, Values{1, 1, kInfinity});
  EXPECT_EQ(both.low, 0);
  EXPECT_EQ(both.high, kInfinity);
  const Interval none = bootstrap_ratio(Values{kInfinity}, Values{kInfinity});
  EXPECT_TRUE(std::isnan(none.median));
  EXPECT_TRUE(std::isnan(none.low));
}

// The first five: scipy.stats.mannwhitneyu(x, y, alternative="two-sided", method="auto") of SciPy
// 1.17.1. Ten values on each side: all 184,756 orders, counted. 26 on each side, with ties: the
// formula of the normal law with Python's statistics.NormalDist.
TEST(MannWhitneyTest, AgreesWithOthers) {
  const auto range = [](double from, double to, double step) {
    Values values;
    for (double x = from; x < to; x += step) values.push_back(x);
    return values;
  };
  struct Case {
    Values x, y;
    double u, p_value;
    bool exact;
  };
  const std::vector<Case> cases = {
      {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, 0, 0.007936507936507936, true},
      {{1.1, 2.2, 3.3, 4.4, 5.5}, {2, 3, 4, 5, 6}, 10, 0.6904761904761905, true},
      {{12.1, 13.5, 11.9, 14.2, 12.8},
       {15.3, 13.9, 16.1, 14.8, 15.0},
       1,
       0.015873015873015872,
       true},
      {{3}, {1, 2, 4}, 2, 1.0, true},
      {range(1, 9, 1), range(10, 50, 3), 0, 6.254495418582106e-06, true},
      {range(0, 20, 2), range(5, 25, 2), 28, 0.10512243174781874, true},
      {range(0, 26, 1), range(10, 36, 1), 128, 0.00012535530168733544, false}};
  for (const Case& each : cases) {
    const MannWhitney found = mann_whitney(each.x, each.y);
    EXPECT_EQ(found.u, each.u);
    EXPECT_EQ(found.exact, each.exact);
    EXPECT_NEAR(found.p_value, each.p_value, 1e-12 * each.p_value) << "u " << each.u;
    const MannWhitney swapped = mann_whitney(each.y, each.x);
    const auto pairs = static_cast<double>(each.x.size() * each.y.size());
    EXPECT_EQ(swapped.u, pairs - each.u);
    EXPECT_NEAR(swapped.p_value, each.p_value, 1e-12 * each.p_value);
  }
}

// The mean ranks of all values, by counting smaller and equal ones.
Values mean_ranks(const Values& values) {
  Values ranks;
  for (const double value : values) {
    const auto below = std::ranges::count_if(values, [&](double v) { return v < value; });
    const auto equal = std::ranges::count(values, value);
    ranks.push_back(static_cast<double>(below) + static_cast<double>(equal + 1) / 2);
  }
  return ranks;
}

// Twice the smaller share of all choices of m values whose ranks have a sum as small, or as large,
// as the first m have.
double share_of_all_choices(const Values& values, std::size_t m) {
  const Values ranks = mean_ranks(values);
  const double found =
      std::accumulate(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(m), 0.0);
  double all = 0, small = 0, large = 0;
  for (unsigned chosen = 0; chosen < 1U << values.size(); ++chosen) {
    if (static_cast<std::size_t>(std::popcount(chosen)) != m) continue;
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += (chosen >> i & 1U) != 0 ? ranks[i] : 0;
    all += 1;
    small += sum <= found ? 1 : 0;
    large += sum >= found ? 1 : 0;
  }
  return std::min(1.0, 2 * std::min(small, large) / all);
}

// Values without ties, with few different ones, and with missed targets.
TEST(MannWhitneyTest, IsTheShareOfAllOrders) {
  std::uint64_t state = 1;
  const auto below = [&](std::uint64_t end) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % end;
  };
  for (const std::size_t m : {1, 2, 3, 5, 7}) {
    for (const std::size_t n : {1, 2, 4, 6}) {
      for (const std::uint64_t different : {2, 3, 5, 1000}) {
        Values values;
        for (std::size_t i = 0; i < m + n; ++i) {
          const std::uint64_t drawn = below(different);
          values.push_back(drawn == 0 ? kInfinity : static_cast<double>(drawn));
        }
        const auto middle = values.begin() + static_cast<std::ptrdiff_t>(m);
        const Values x(values.begin(), middle), y(middle, values.end());
        const MannWhitney found = mann_whitney(x, y);
        EXPECT_TRUE(found.exact);
        EXPECT_NEAR(found.p_value, share_of_all_choices(values, m), 1e-12) << m << " " << n;
        EXPECT_NEAR(mann_whitney(y, x).p_value, found.p_value, 1e-12);
      }
    }
  }
}

// No test of three against three gives less than 2 of 20 orders, whatever is tied.
TEST(MannWhitneyTest, TiesShowNoMoreThanOrdersCan) {
  EXPECT_NEAR(mann_whitney(Values{1, 1, 1}, Values{2, 2, 2}).p_value, 0.1, 1e-15);
  EXPECT_NEAR(mann_whitney(Values{1, 2, 3}, Values(3, kInfinity)).p_value, 0.1, 1e-15);
  EXPECT_NEAR(mann_whitney(Values{1, 1, 1}, Values{2, 2, 2, 2}).p_value, 2.0 / 35, 1e-15);
  EXPECT_FALSE(can_show(3, 4));
  EXPECT_TRUE(can_show(30, 30));
}

TEST(MannWhitneyTest, AllMissedIsNoDifference) {
  const Values missed(5, kInfinity);
  EXPECT_EQ(mann_whitney(missed, missed).p_value, 1);
}

// Sorted: 0.01, 0.02, 0.03, 0.04; times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.04, made to rise.
TEST(HolmTest, MultipliesByTheNumberOfTestsLeftAndNeverFalls) {
  const std::vector<double> p = {0.04, 0.01, 0.03, 0.02};
  EXPECT_THAT(holm(p), ::testing::Pointwise(::testing::DoubleEq(), {0.06, 0.04, 0.06, 0.06}));
  EXPECT_THAT(holm(std::vector<double>{0.5, 0.9}), ::testing::ElementsAre(1, 1));
  EXPECT_THAT(holm(std::vector<double>{0.25}), ::testing::ElementsAre(0.25));
  EXPECT_TRUE(holm({}).empty());
}

// Two pairs give the resamples (a, a), (a, b), (b, b): ratios of 2, of the medians, 3 and of 3.
TEST(BootstrapPairedRatio, ResamplesSeeds) {
  const Interval interval = bootstrap_paired_ratio(Values{2, 30}, Values{1, 10});
  EXPECT_EQ(interval.median, 16 / 5.5);
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 3);
  // The common effect of a seed does not widen it, however large it is.
  const Interval same = bootstrap_paired_ratio(Values{2, 20, 200, 2000}, Values{1, 10, 100, 1000});
  EXPECT_EQ(same.low, 2);
  EXPECT_EQ(same.high, 2);
}

TEST(BootstrapPairedRatio, MissedTargetsWidenTheInterval) {
  const Interval apart = bootstrap_paired_ratio(Values{2, 2, kInfinity}, Values{1, 1, 1});
  EXPECT_EQ(apart.median, 2);
  EXPECT_EQ(apart.high, kInfinity);
  // A seed that both miss says nothing about the ratio.
  const Interval both = bootstrap_paired_ratio(Values{2, 2, kInfinity}, Values{1, 1, kInfinity});
  EXPECT_EQ(both.low, 0);
  EXPECT_EQ(both.high, kInfinity);
  EXPECT_TRUE(std::isnan(bootstrap_paired_ratio(Values{kInfinity}, Values{kInfinity}).median));
}

// The ranks of |log(x / y)| with their signs, by counting smaller and equal ones.
Values signed_ranks(const Values& x, const Values& y) {
  Values sizes, ranks;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sizes.push_back(x[i] == y[i] ? 0 : std::abs(std::log2(x[i]) - std::log2(y[i])));
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto below = std::ranges::count_if(sizes, [&](double s) { return s < sizes[i]; });
    const auto equal = std::ranges::count(sizes, sizes[i]);
    const double rank = static_cast<double>(below) + static_cast<double>(equal + 1) / 2;
    ranks.push_back(x[i] == y[i] ? 0 : x[i] > y[i] ? rank : -rank);
  }
  return ranks;
}

// The share of all signs of the ranks whose sum is as far from 0, at the least.
double share_of_all_signs(const Values& ranks) {
  const double found = std::abs(std::accumulate(ranks.begin(), ranks.end(), 0.0));
  const std::size_t all = std::size_t{1} << ranks.size();
  std::size_t as_far = 0;
  for (std::size_t signs = 0; signs < all; ++signs) {
    double sum = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      sum += (signs >> i & 1) != 0 ? std::abs(ranks[i]) : -std::abs(ranks[i]);
    }
    as_far += std::abs(sum) >= found - 1e-9 ? 1 : 0;
  }
  return static_cast<double>(as_far) / static_cast<double>(all);
}

// Powers of two, so that logarithms are exact. Ties, equal pairs and infinities in all numbers.
TEST(SignedRankTest, IsTheShareOfAllSigns) {
  const Values all = {1, 2, 4, 16, 32, kInfinity};
  std::uint64_t state = 1;
  const auto draw = [&] {
    state = state * 6364136223846793005 + 1442695040888963407;
    return all[(state >> 33) % all.size()];
  };
  for (std::size_t n = 1; n <= 12; ++n) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      Values x, y;
      for (std::size_t i = 0; i < n; ++i) {
        x.push_back(draw());
        y.push_back(draw());
      }
      const SignedRank found = signed_rank(x, y);
      EXPECT_TRUE(found.exact);
      EXPECT_NEAR(found.p_value, share_of_all_signs(signed_ranks(x, y)), 1e-12);
      EXPECT_EQ(signed_rank(y, x).p_value, found.p_value);
    }
  }
}

// The distribution of the sum W of 10 ranks: P(W <= 8) = 25/1024 (Wilcoxon 1945, table II).
TEST(SignedRankTest, OfTenPairs) {
  Values x, y;
  for (int i = 1; i <= 10; ++i) {
    x.push_back(i == 8 ? 1 : std::exp(i));
    y.push_back(i == 8 ? std::exp(i) : 1);
  }
  const SignedRank found = signed_rank(x, y);
  EXPECT_EQ(found.w, 55 - 8);
  EXPECT_NEAR(found.p_value, 2 * 25.0 / 1024, 1e-15);
}

TEST(SignedRankTest, EqualPairsAreRankedAndLeftOut) {
  // Ranks 2, 3, 4: one equal pair takes rank 1. All three positive: 2 of 8 signs.
  const SignedRank found = signed_rank(Values{5, 2, 4, 8}, Values{5, 1, 1, 1});
  EXPECT_EQ(found.w, 2 + 3 + 4);
  EXPECT_EQ(found.p_value, 0.25);
  EXPECT_EQ(signed_rank(Values{kInfinity, 3}, Values{kInfinity, 3}).p_value, 1);
}

TEST(SignedRankTest, AMissedTargetHasTheLargestRank) {
  const SignedRank found = signed_rank(Values{2, 4, kInfinity}, Values{1, 1, 1000});
  EXPECT_EQ(found.w, 6);
  EXPECT_EQ(signed_rank(Values{2, 4, 1000}, Values{1, 1, kInfinity}).w, 3);
}

// Beyond 50 pairs: z = (n (n + 1) / 4 - W) / sqrt(n (n + 1) (2 n + 1) / 24).
TEST(SignedRankTest, ManyPairsAreNormal) {
  Values x, y;
  for (int i = 1; i <= 60; ++i) {
    const bool below = i <= 34;  // ranks 1 to 34: 595
    x.push_back(below ? 1 : std::exp(i));
    y.push_back(below ? std::exp(i) : 1);
  }
  const SignedRank found = signed_rank(x, y);
  EXPECT_FALSE(found.exact);
  EXPECT_EQ(found.w, 1830 - 595);
  const double z = (915 - 595) / std::sqrt(60.0 * 61 * 121 / 24);
  EXPECT_NEAR(found.p_value, std::erfc(z / std::sqrt(2.0)), 1e-12);
}

TEST(CanShow, FromTheLeastPValue) {
  EXPECT_FALSE(can_show(5));     // 2/32
  EXPECT_TRUE(can_show(6));      // 2/64
  EXPECT_FALSE(can_show(3, 3));  // 2/20
  EXPECT_TRUE(can_show(4, 4));   // 2/70
  EXPECT_TRUE(can_show(3, 5));   // 2/56
}

// Log ratios of 1 and 3, three times each: a standard deviation of sqrt(6/5), and of the mean
// sqrt(1/5).
TEST(LeastEffect, IsThatOfEightyPercentPower) {
  Values x, y;
  for (int i = 0; i < 6; ++i) {
    y.push_back(std::exp(10 * i));
    x.push_back(y.back() * std::exp(i % 2 == 0 ? 1 : 3));
  }
  EXPECT_NEAR(least_paired_effect(x, y), std::exp(2.8 * std::sqrt(0.2)), 1e-9);
  EXPECT_GT(least_effect(x, y), 1e6);  // the seeds are far apart
  EXPECT_NEAR(least_effect(Values{1, std::exp(2), 1, std::exp(2)}, Values{1, 1, 1, 1}),
              std::exp(2.8 * std::sqrt(1.0 / 3)), 1e-9);
  EXPECT_TRUE(std::isnan(least_paired_effect(Values(6, kInfinity), Values(6, 1))));
  EXPECT_EQ(least_paired_effect(Values(5, 2), Values(5, 1)), kInfinity);
  EXPECT_EQ(least_effect(Values(3, 2), Values(3, 1)), kInfinity);
}

}  // namespace
}  // namespace hetsgd
