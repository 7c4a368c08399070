#include "result/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "result/records.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using test::json_of;
using test::record_of;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

// A result whose p1 passes 0.5 at second `reached`; 0: never.
LoadedResult result_of(const std::string& path, const std::string& algorithm, std::uint64_t seed,
                       std::size_t reached) {
  std::vector<double> p1(10, 0.1);
  for (std::size_t i = reached; reached > 0 && i < p1.size(); ++i) p1[i] = 0.6;
  Record record = record_of(p1, seed);
  record.config["algorithm"] = algorithm;
  return {path, json_of(record)};
}

TEST(Compare, GroupsSeedsAndTakesMedians) {
  std::vector<LoadedResult> results;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    results.push_back(result_of("a" + std::to_string(seed), "ssgd", seed, 4));
    results.push_back(
        result_of("b" + std::to_string(seed), "adaptive", seed, seed < 5 ? 1 + seed / 2 : 0));
  }
  const Comparison comparison = compare(results, {});
  ASSERT_EQ(comparison.groups.size(), 2u);
  const GroupRow& reference = comparison.groups[0];
  const GroupRow& adaptive = comparison.groups[1];
  EXPECT_TRUE(reference.reference);
  EXPECT_EQ(reference.label, "ssgd");
  EXPECT_EQ(reference.runs.size(), 5u);
  EXPECT_EQ(reference.targets[0].ratio, 1);
  // times 1, 2, 2, 3, missed
  EXPECT_EQ(adaptive.targets[0].reached, 4u);
  EXPECT_EQ(adaptive.targets[0].time_s.median, 2);
  EXPECT_EQ(adaptive.targets[0].time_s.high, kInfinity);
  EXPECT_EQ(adaptive.targets[0].samples, 200);
  EXPECT_EQ(adaptive.targets[0].updates, 20);
  EXPECT_EQ(adaptive.targets[0].ratio, 0.5);
  EXPECT_EQ(adaptive.samples_per_s.median, 100);
  EXPECT_EQ(comparison.worst_ratio(), 0.5);
  EXPECT_THAT(comparison.warnings, ::testing::IsEmpty());
}

TEST(Compare, AMissedTargetIsInfinitelySlow) {
  const std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4),
                                             result_of("b", "adaptive", 1, 0)};
  EXPECT_EQ(compare(results, {}).worst_ratio(), kInfinity);
  const Comparison turned = compare(results, {.targets = {}, .reference = "b"});
  EXPECT_EQ(turned.groups[0].targets[0].ratio, 0);
  EXPECT_TRUE(std::isnan(turned.groups[1].targets[0].ratio));
  EXPECT_EQ(turned.worst_ratio(), 0);
}

TEST(Compare, TargetsOfTheCallReplaceThoseOfTheFiles) {
  const std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4)};
  const Comparison comparison =
      compare(results, {.targets = {{"p1", true, 0.05}, {"test_loss", false, 1}}, .reference = ""});
  EXPECT_EQ(comparison.runs[0].targets[0].time_s, 0);
  EXPECT_EQ(comparison.runs[0].targets[1].time_s, kInfinity);
}

TEST(Compare, OneAlgorithmWithTwoOptionsIsTwoGroups) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "ssgd", 1, 4)};
  results[1].json["config"]["learning_rate"] = 0.25;
  const Comparison comparison = compare(results, {});
  ASSERT_EQ(comparison.groups.size(), 2u);
  EXPECT_EQ(comparison.groups[0].label, "ssgd (learning_rate=0.5)");
  EXPECT_EQ(comparison.groups[1].label, "ssgd (learning_rate=0.25)");
}

TEST(Compare, PathsOfTheSameDataDoNotSeparate) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4), result_of("b", "ssgd", 2, 4)};
  results[1].json["config"]["train"] = "/elsewhere/train.txt";
  EXPECT_EQ(compare(results, {}).groups.size(), 1u);
}

TEST(Compare, WarnsOfFewSeedsOtherWorkloadsAndOpenRuns) {
  std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4),
                                       result_of("b", "adaptive", 1, 4),
                                       result_of("c", "adaptive", 1, 4)};
  results[1].json["dataset"]["train"]["content_hash"] = "xxh3:00000000000000ff";
  results[2].json["status"] = "aborted";
  const std::string warnings = ::testing::PrintToString(compare(results, {}).warnings);
  EXPECT_THAT(warnings, HasSubstr("different workloads: a and b differ in the training data"));
  EXPECT_THAT(warnings, HasSubstr("fewer than 5 seeds (ssgd 1,"));
  EXPECT_THAT(warnings, HasSubstr("c: status aborted"));
}

TEST(Compare, UnknownReferenceAndNoFilesAreUsageErrors) {
  EXPECT_THROW(compare({}, {}), Error);
  EXPECT_THROW(compare({result_of("a", "ssgd", 1, 4)}, {.targets = {}, .reference = "x"}), Error);
}

TEST(Compare, TablesAndJsonAgree) {
  const std::vector<LoadedResult> results = {result_of("a", "ssgd", 1, 4),
                                             result_of("b", "adaptive", 1, 0)};
  const Comparison comparison = compare(results, {});
  EXPECT_EQ(
      runs_table(comparison).format(TableFormat::csv),
      "run,file,seed,status,p1>=0.5 time_s,smoothed_time_s,samples,updates,samples_per_s,final p1\n"
      "ssgd,a,1,completed,4,6,400,40,100,0.6000\n"
      "adaptive,b,1,completed,inf,inf,inf,inf,100,0.1000\n");
  const json document = comparison_json(comparison);
  EXPECT_EQ(document["groups"][0]["targets"][0]["time_s"]["median"], 4.0);
  EXPECT_TRUE(document["groups"][1]["targets"][0]["ratio"].is_null());
  EXPECT_EQ(document["groups"][1]["targets"][0]["ratio_reason"], "inf");
  EXPECT_EQ(document["groups"][1]["targets"][0]["times_s_reason"], "inf");
}

TEST(TableTest, AlignsNumbersAndEscapes) {
  Table table({"name", "value"});
  table.add({"a", "1.5"});
  table.add({"long, \"name\"", "-"});
  EXPECT_EQ(table.format(TableFormat::text),
            "name          value\n"
            "------------  -----\n"
            "a               1.5\n"
            "long, \"name\"      -\n");
  EXPECT_EQ(table.format(TableFormat::markdown),
            "| name         | value |\n"
            "| ------------ | ----: |\n"
            "| a            |   1.5 |\n"
            "| long, \"name\" |     - |\n");
  EXPECT_EQ(table.format(TableFormat::csv), "name,value\na,1.5\n\"long, \"\"name\"\"\",-\n");
}

}  // namespace
}  // namespace hetsgd
