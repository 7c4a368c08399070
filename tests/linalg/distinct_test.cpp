// Distinct numbers of lists against a map, round after round.
#include "linalg/distinct.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "core/random.hpp"

namespace hetsgd::test {
namespace {

TEST(DistinctNumbers, AreNumberedInTheOrderOfTheirFirstCalls) {
  DistinctNumbers distinct;
  RandomStream random(1, Purpose::test);
  // Rounds that grow and shrink, of few numbers and of many, 0 and the largest among them.
  for (const std::size_t most : {1, 3, 1000, 7, 0, 5000, 5000, 200, 20000, 64}) {
    for (const std::uint32_t kinds : {1U, 5U, 4000000000U}) {
      distinct.begin(most);
      std::map<std::uint32_t, std::size_t> slots;
      std::vector<std::uint32_t> order;
      for (std::size_t i = 0; i < most; ++i) {
        const std::uint32_t number = ~std::uint32_t{0} + random.next_u32() % kinds;
        const auto [at, fresh] = slots.emplace(number, slots.size());
        if (fresh) order.push_back(number);
        ASSERT_EQ(distinct.slot(number), at->second);
        ASSERT_EQ(distinct.count(), slots.size());
      }
      EXPECT_TRUE(std::ranges::equal(distinct.found(), order));
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
