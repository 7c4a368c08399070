#include "experiment/search_space.hpp"

#include "experiment/spec_settings.hpp"

namespace hetsgd {
namespace {

SearchAxis range_of(const std::string& name, double min, double max, Distribution distribution) {
  return {.names = {name},
          .rows = {},
          .distribution = distribution,
          .min = min,
          .max = max,
          .place = ""};
}

TEST(SearchSpaceTest, AGridHasEachCombinationOnce) {
  SearchSpace space;
  space.axes = {{.names = {"a"}, .rows = {{1}, {2}}, .place = ""},
                {.names = {"b", "c"}, .rows = {{3, 4}, {5, 6}, {7, 8}}, .place = ""}};
  ASSERT_EQ(space.size(), 6);
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < 6; ++i) {
    const auto point = space.point(i);
    ASSERT_EQ(point.size(), 3U);
    EXPECT_EQ(find_setting(point, "c")->value, find_setting(point, "b")->value.get<int>() + 1);
    seen.insert(find_setting(point, "a")->value.dump() + find_setting(point, "b")->value.dump());
  }
  EXPECT_EQ(seen.size(), 6U);
}

TEST(SearchSpaceTest, GeometricValuesStayInTheirRange) {
  const double least = std::numeric_limits<double>::denorm_min();
  const double most = std::numeric_limits<double>::max();
  for (const auto& [from, to] :
       {std::pair(least, most), std::pair(1e-308, 1e308), std::pair(most / 2, most)}) {
    const std::vector<double> values = geometric_values(from, to, 1000);
    ASSERT_EQ(values.size(), 1000U);
    EXPECT_EQ(values.front(), from);
    EXPECT_EQ(values.back(), to);
    EXPECT_TRUE(std::ranges::is_sorted(values));
  }
}

TEST(SearchSpaceTest, DistributionsKeepTheirBounds) {
  for (const auto distribution : {Distribution::uniform, Distribution::log_uniform,
                                  Distribution::int_uniform, Distribution::int_log_uniform}) {
    const SearchAxis axis = range_of("x", 1, 16, distribution);
    EXPECT_EQ(axis.at(0).front().get<double>(), 1);
    EXPECT_LE(axis.at(std::nextafter(1.0, 0.0)).front().get<double>(), 16);
    EXPECT_GT(axis.at(std::nextafter(1.0, 0.0)).front().get<double>(), 15.9);
  }
  // Half of a logarithmic range lies below the geometric mean.
  EXPECT_NEAR(range_of("x", 1, 16, Distribution::log_uniform).at(0.5).front().get<double>(), 4,
              1e-12);
}

// The largest gap between n points on a circle is 1/n at best and about ln(n)/n for random ones; of
// an additive recurrence with the golden ratio it is below 1.7/n (three-distance theorem).
TEST(SearchSpaceTest, QuasiRandomPointsLeaveNoGaps) {
  constexpr int kPoints = 100;
  for (const std::size_t dimensions : {1U, 2U, 3U}) {
    SearchSpace space;
    space.method = SearchMethod::quasi_random;
    space.points = kPoints;
    for (std::size_t d = 0; d < dimensions; ++d) {
      space.axes.push_back(
          range_of(std::string(1, static_cast<char>('a' + d)), 0, 1, Distribution::uniform));
    }
    for (const SearchAxis& axis : space.axes) {
      std::vector<double> values;
      for (std::uint64_t i = 0; i < kPoints; ++i) {
        values.push_back(find_setting(space.point(i), axis.names[0])->value);
      }
      std::sort(values.begin(), values.end());
      double gap = values.front() + 1 - values.back();
      for (std::size_t i = 1; i < values.size(); ++i)
        gap = std::max(gap, values[i] - values[i - 1]);
      EXPECT_LT(gap, (dimensions == 1 ? 1.7 : 3.0) / kPoints) << dimensions;
    }
  }
}

TEST(SearchSpaceTest, PointsAreAFunctionOfTheSeed) {
  for (const SearchMethod method : {SearchMethod::random, SearchMethod::quasi_random}) {
    SearchSpace space;
    space.method = method;
    space.points = 3;
    space.axes = {range_of("a", 0, 1, Distribution::uniform)};
    SearchSpace other = space;
    other.seed = 2;
    EXPECT_EQ(space.point(1)[0].value, space.point(1)[0].value);
    EXPECT_NE(space.point(1)[0].value, space.point(2)[0].value);
    EXPECT_NE(space.point(1)[0].value, other.point(1)[0].value);
  }
}

TEST(SearchSpaceTest, AListGoesOnBeyondItsEndsWithTheRatioOfTheLastTwo) {
  using nlohmann::json;
  const std::vector<json> values = {1, 0.25, 0.5};  // in any order, whole numbers among them
  EXPECT_FALSE(end_of_list(values, 0.5).is_end);
  EXPECT_FALSE(end_of_list(values, 3).is_end);
  EXPECT_EQ(end_of_list(values, 1.0).beyond, 2.0);
  EXPECT_EQ(end_of_list(values, 0.25).beyond, 0.125);
  EXPECT_EQ(end_of_list({0.1, 0.316, 1}, 1).beyond, 3.16);  // 1 / 0.316 = 3.1646
  EXPECT_FALSE(end_of_list({"a", "b"}, "a").is_end);
  const ListEnd alone = end_of_list({2}, 2), from_zero = end_of_list({0, 1}, 1);
  EXPECT_TRUE(alone.is_end && !alone.beyond);
  EXPECT_TRUE(from_zero.is_end && !from_zero.beyond);
}

}  // namespace
}  // namespace hetsgd
