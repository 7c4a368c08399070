#include "result/performance_profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace hetsgd {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();

using Ratios = std::vector<double>;
using Seeds = std::vector<double>;

// One seed of each problem.
MethodTimes single(const std::string& name, const std::vector<double>& times) {
  MethodTimes method{name, {}};
  for (const double time : times) method.times_s.push_back({time});
  return method;
}

TEST(PerformanceProfile, RatiosOfTimes) {
  EXPECT_EQ(ratio_to_best(6, 2), 3);
  EXPECT_EQ(ratio_to_best(2, 2), 1);
  EXPECT_EQ(ratio_to_best(0, 0), 1);  // reached before the first step, by both
  EXPECT_EQ(ratio_to_best(2, 0), kUnreached);
  EXPECT_EQ(ratio_to_best(kUnreached, 2), kUnreached);
  EXPECT_EQ(ratio_to_best(kUnreached, kUnreached),
            kUnreached);  // nobody reached it, so nobody is the best
}

// The profile of {1, 1.5, 3, inf} is 1/4 on [1, 1.5), 1/2 on [1.5, 3), 3/4 on [3, 4]. Its integral
// is 1/8 + 3/4 + 3/4 = 13/8, of 3.
TEST(PerformanceProfile, AreaIsTheIntegralOfTheSteps) {
  EXPECT_DOUBLE_EQ(profile_area(Ratios{1, 1.5, 3, kUnreached}), 13.0 / 24);
  EXPECT_EQ(profile_area(Ratios{1, 1}), 1);
  EXPECT_EQ(profile_area(Ratios{4, 5, kUnreached}), 0);  // from the end on nothing counts
}

// Problem 1: 2, 4, missed, best 2: ratios 1, 2, inf: 1, 2/3, 0. Problem 2: 6, 3, 3, best 3, a tie:
// ratios 2, 1, 1: 2/3, 1, 1. Scores 5/6, 5/6, 1/2; ranks 1, 1, 3.
TEST(ScoreMethods, OfThreeMethodsByHand) {
  const auto scores = score_methods(
      std::vector{single("a", {2, 6}), single("b", {4, 3}), single("c", {kUnreached, 3})});
  EXPECT_DOUBLE_EQ(scores[0].score, 5.0 / 6);
  EXPECT_DOUBLE_EQ(scores[1].score, 5.0 / 6);
  EXPECT_DOUBLE_EQ(scores[2].score, 1.0 / 2);
  EXPECT_EQ(scores[0].ratios, (Ratios{1, 2}));
  EXPECT_EQ(scores[2].ratios, (Ratios{kUnreached, 1}));
  EXPECT_EQ(scores[2].solved, 1U);
  EXPECT_EQ((std::vector{scores[0].rank, scores[1].rank, scores[2].rank}),
            (std::vector<std::size_t>{1, 1, 3}));
  for (const MethodScore& each : scores) {  // of one seed there is one resample
    EXPECT_EQ(each.low, each.score);
    EXPECT_EQ(each.high, each.score);
    EXPECT_EQ(each.rank_low, each.rank);
    EXPECT_EQ(each.rank_high, each.rank);
  }
}

TEST(ScoreMethods, WhoAlwaysWinsHasOneAndWhoNeverReachesTheTargetZero) {
  const MethodTimes fast{"fast", {{1, 2, 3}, {1, 1, 1}}}, slow{"slow", {{4, 5, 6}, {2, 2, 2}}};
  const MethodTimes never{
      "never", {{kUnreached, kUnreached, kUnreached}, {kUnreached, kUnreached, kUnreached}}};
  const auto scores = score_methods(std::vector{never, fast, slow});
  EXPECT_EQ(scores[1].score, 1);
  EXPECT_EQ(scores[1].low, 1);
  EXPECT_EQ(scores[1].rank_high, 1U);
  EXPECT_EQ(scores[0].score, 0);
  EXPECT_EQ(scores[0].high, 0);
  EXPECT_EQ(scores[0].rank, 3U);
  EXPECT_EQ(scores[0].solved, 0U);
}

// A problem that no method solves counts for all of them: no method gains by it.
TEST(ScoreMethods, UnsolvedProblemsStayInTheMean) {
  EXPECT_EQ(score_methods(std::vector{single("a", {1, kUnreached})})[0].score, 0.5);
}

TEST(ScoreMethods, TheMedianDecidesAndMissedSeedsAreInfinite) {
  const MethodTimes a{"a", {{1, 9, 2}}}, b{"b", {{1, kUnreached, kUnreached}}};
  const auto scores = score_methods(std::vector{a, b});
  EXPECT_EQ(scores[0].median_s, (std::vector<double>{2}));
  EXPECT_EQ(scores[1].median_s, (std::vector<double>{kUnreached}));
  EXPECT_EQ(scores[1].score, 0);
  EXPECT_GT(scores[1].high, 0);  // resamples with the first seed at least twice reach it
}

// Another method can only shorten the best time, which divides all others; the resamples do not
// depend on it.
TEST(ScoreMethods, AnotherMethodRaisesNobodysScore) {
  const std::vector<MethodTimes> before = {{"a", {{1, 2, 3}, {5, 4, 9}}},
                                           {"b", {{2, 2, 2}, {3, kUnreached, 3}}}};
  std::vector<MethodTimes> slower = before, faster = before;
  slower.push_back({"c", {{7, 8, 9}, {20, 20, 20}}});
  faster.push_back({"c", {{0.5, 0.5, 0.5}, {20, 20, 20}}});
  const auto first = score_methods(before), same = score_methods(slower),
             lower = score_methods(faster);
  for (std::size_t m = 0; m < before.size(); ++m) {
    EXPECT_EQ(same[m].score, first[m].score);
    EXPECT_EQ(same[m].low, first[m].low);
    EXPECT_EQ(same[m].high, first[m].high);
    EXPECT_LT(lower[m].score, first[m].score);
    for (std::size_t p = 0; p < 2; ++p) EXPECT_GE(lower[m].ratios[p], first[m].ratios[p]);
  }
}

// With many equally distributed methods the best resampled median is earlier than the best median
// in nearly every resample.
TEST(ScoreMethods, IntervalsHoldTheirValuesAndAreTheSameAgain) {
  std::vector<MethodTimes> methods;
  for (int m = 0; m < 12; ++m) {
    MethodTimes method{std::to_string(m), {}};
    for (int p = 0; p < 3; ++p) {
      Seeds times;
      for (int seed = 0; seed < 5; ++seed) times.push_back(1 + (m * 7 + p * 5 + seed * 11) % 13);
      method.times_s.push_back(times);
    }
    methods.push_back(method);
  }
  const auto scores = score_methods(methods), again = score_methods(methods);
  const auto other = score_methods(methods, 2);
  bool any_differs = false;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    EXPECT_LE(scores[m].low, scores[m].score);
    EXPECT_GE(scores[m].high, scores[m].score);
    EXPECT_LE(scores[m].rank_low, scores[m].rank);
    EXPECT_GE(scores[m].rank_high, scores[m].rank);
    EXPECT_EQ(scores[m].low, again[m].low);
    EXPECT_EQ(scores[m].high, again[m].high);
    any_differs = any_differs || scores[m].low != other[m].low;
  }
  EXPECT_TRUE(any_differs);
}

// One problem; b always takes 2, a takes 1 or 4 by the seed. A resample of two seeds has for a the
// medians 1, 2.5, 4 with probability 1/4, 1/2, 1/4, so for b the ratios 2, 1, 1.
TEST(ScoreMethods, TheBootstrapDrawsSeeds) {
  const auto scores = score_methods(std::vector<MethodTimes>{{"a", {{1, 4}}}, {"b", {{2, 2}}}});
  EXPECT_DOUBLE_EQ(scores[1].low, 2.0 / 3);
  EXPECT_EQ(scores[1].high, 1);
  EXPECT_EQ(scores[0].high, 1);
  EXPECT_DOUBLE_EQ(scores[0].low, 2.0 / 3);  // 4 / 2
}

// All methods use the same seeds: one that is always twice as slow with the same seed is so in
// every resample.
TEST(ScoreMethods, SeedsAreDrawnForAllMethodsAlike) {
  const auto scores =
      score_methods(std::vector<MethodTimes>{{"a", {{1, 5, 9}}}, {"b", {{2, 10, 18}}}});
  EXPECT_DOUBLE_EQ(scores[1].low, 2.0 / 3);
  EXPECT_DOUBLE_EQ(scores[1].high, 2.0 / 3);
}

}  // namespace
}  // namespace hetsgd
