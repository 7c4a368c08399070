#include "memory/pool.hpp"

namespace hetsgd {
namespace {

// The low and the high arena of figure 4.3, in small.
TEST(Arenas, TakeFromBothEndsAndFillHolesFirst) {
  const auto pool = make_arenas(1000, 1);
  EXPECT_EQ(pool->allocate(200, Mobility::movable), 0u);
  EXPECT_EQ(pool->allocate(300, Mobility::temporary), 700u);
  EXPECT_EQ(pool->allocate(100, Mobility::movable), 200u);
  pool->release(0, 200);
  EXPECT_EQ(pool->allocate(150, Mobility::movable), 0u);
  pool->release(200, 100);
  EXPECT_EQ(pool->used(), 150u + 300u);
  EXPECT_EQ(pool->gap(), 550u);
  EXPECT_EQ(pool->unusable(600), 1);
  EXPECT_EQ(pool->unusable(550), 0);
}

TEST(Arenas, GoToTheOtherArenasHolesWhenTheGapIsFull) {
  const auto pool = make_arenas(300, 1);
  EXPECT_EQ(pool->allocate(100, Mobility::temporary), 200u);
  EXPECT_EQ(pool->allocate(100, Mobility::temporary), 100u);
  EXPECT_EQ(pool->allocate(100, Mobility::movable), 0u);
  pool->release(200, 100);
  EXPECT_EQ(pool->gap(), 0u);
  EXPECT_EQ(pool->allocate(60, Mobility::movable), 200u);
  EXPECT_EQ(pool->allocate(60, Mobility::movable), std::nullopt);
  EXPECT_EQ(pool->allocate(60, Mobility::reclaimed), 300u);
  EXPECT_EQ(pool->used(), 360u);
}

// Figure 2.6 of Yang's dissertation (2022): the first of three neighbours is freed; it does not
// merge with the memory behind the second. Figure 2.7: a request of 400 fails in 200 + 300.
TEST(BestFit, FragmentsAsInFigures26And27) {
  const auto pool = make_best_fit(4096);
  EXPECT_EQ(pool->allocate(512, Mobility::movable), 0u);
  EXPECT_EQ(pool->allocate(512, Mobility::movable), 512u);
  EXPECT_EQ(pool->allocate(512, Mobility::movable), 1024u);
  pool->release(0, 512);
  pool->release(1024, 512);
  EXPECT_EQ(pool->free_blocks(), (std::vector<FreeBlock>{{0, 512}, {1024, 3072}}));

  const auto full = make_best_fit(600, 1);
  EXPECT_EQ(full->allocate(200, Mobility::movable), 0u);
  EXPECT_EQ(full->allocate(100, Mobility::movable), 200u);
  full->release(0, 200);
  EXPECT_EQ(full->allocate(400, Mobility::movable), std::nullopt);
  EXPECT_EQ(full->unusable(400), 1);
  EXPECT_EQ(full->allocate(200, Mobility::movable), 0u);  // the smaller hole
}

}  // namespace
}  // namespace hetsgd
