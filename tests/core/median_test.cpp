#include "core/median.hpp"

namespace hetsgd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoInTheMiddle) {
  EXPECT_EQ(median(std::vector<double>{3}), 3);
  EXPECT_EQ(median(std::vector<double>{5, 1, 3}), 3);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
}

TEST(Median, CountsInfinities) {
  EXPECT_EQ(median(std::vector<double>{kInfinity, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{kInfinity, 1}), kInfinity);
  EXPECT_EQ(median(std::vector<double>{kInfinity, kInfinity}), kInfinity);
}

}  // namespace
}  // namespace hetsgd
