#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/collective_call.hpp"

namespace hetsgd {
namespace {

using Groups = std::vector<std::vector<int>>;

TEST(GroupPlan, GroupsFollowTheirColours) {
  const SplitChoice choices[] = {{7, 0}, {2, 0}, {7, 0}, {2, 0}, {5, 0}};
  EXPECT_EQ(plan_groups(choices), (Groups{{1, 3}, {4}, {0, 2}}));
}

TEST(GroupPlan, RanksFollowKeysThenOldRanks) {
  const SplitChoice choices[] = {{0, 3}, {0, -1}, {0, 3}, {0, 0}};
  EXPECT_EQ(plan_groups(choices), (Groups{{1, 3, 0, 2}}));
}

TEST(GroupPlan, NegativeColoursJoinNone) {
  const SplitChoice choices[] = {{-1, 0}, {0, 1}, {-5, 0}};
  EXPECT_EQ(plan_groups(choices), (Groups{{1}}));
  EXPECT_EQ(plan_groups({}), Groups());
}

}  // namespace
}  // namespace hetsgd
