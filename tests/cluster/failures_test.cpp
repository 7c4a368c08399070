// Failures and returns of workers in a scenario (cluster/straggler.hpp): when who is lost.

#include <string_view>

#include "cluster/straggler.hpp"
#include "core/error.hpp"

namespace hetsgd::test {
namespace {

TEST(Lost, FailsAndReturnsAsAsked) {
  const Scenario scenario(
      {"kind=fail,worker=1,at=10s", "kind=return,worker=1,at=30s", "kind=fail,worker=2,at=5s"}, 3,
      1);
  EXPECT_TRUE(scenario.has_failures());
  EXPECT_FALSE(scenario.lost(0, Seconds(0)));
  EXPECT_EQ(scenario.lost(1, Seconds(0))->at, Seconds(10));
  EXPECT_EQ(scenario.lost(1, Seconds(29))->returns, Seconds(30));
  EXPECT_FALSE(scenario.lost(1, Seconds(30)));
  EXPECT_TRUE(scenario.lost(2, Seconds(100))->for_good());
}

TEST(Lost, AReturnFollowsAFailure) {
  EXPECT_THROW(Scenario({"kind=return,worker=1,at=3s"}, 2, 1), Error);
  EXPECT_THROW(Scenario({"kind=fail,worker=1,at=5s", "kind=return,worker=1,at=3s"}, 2, 1), Error);
}

// The share of the time in which a worker lives is mtbf / (mtbf + mttr); a life is a function of
// the rank and the seed alone.
TEST(Lost, ChurnHasItsMeans) {
  const Scenario scenario({"kind=churn,mtbf=30s,mttr=10s"}, 2, 3);
  double down_s = 0;
  constexpr double kEnd = 400000;
  for (Seconds time{0}; time < Seconds(kEnd);) {
    const Lost lost = *scenario.lost(1, time);
    EXPECT_GE(lost.returns, time);
    down_s += (lost.returns - lost.at).count();
    time = lost.returns;
  }
  EXPECT_NEAR(down_s / kEnd, 0.25, 0.01);
  EXPECT_EQ(scenario.lost(1, Seconds(777))->at, scenario.lost(1, Seconds(777))->at);
  EXPECT_NE(scenario.lost(0, Seconds(0))->at, scenario.lost(1, Seconds(0))->at);
}

// A failure that ends before the others know is none: a stop is a pause, and a worker that is cut
// off communicates later. One that is killed is lost at any rate.
TEST(Lost, OnlyWhatTheOthersNotice) {
  for (const bool notice : {false, true}) {
    for (const char* const mode : {"killed", "stopped", "cut_off"}) {
      SCOPED_TRACE(mode);
      const Scenario scenario(
          {fmt::format("kind=fail,worker=1,at=10s,mode={}", mode), "kind=return,worker=1,at=12s"},
          2, 1, Seconds(notice ? 2 : 2.5));
      const bool is_lost = notice || std::string_view(mode) == "killed";
      ASSERT_EQ(scenario.lost(1, Seconds(0)).has_value(), is_lost);
      if (is_lost) {
        EXPECT_EQ(to_string(scenario.lost(1, Seconds(11))->mode), mode);
      }
      EXPECT_EQ(scenario.reachable(1, Seconds(11)), Seconds(is_lost ? 11 : 12));
      EXPECT_EQ(scenario.reachable(1, Seconds(9)), Seconds(9));
      EXPECT_EQ(scenario.reachable(0, Seconds(11)), Seconds(11));
      EXPECT_EQ(scenario.has_gaps(), std::string_view(mode) != "killed");
      const bool stands = !is_lost && std::string_view(mode) == "stopped";
      EXPECT_EQ(scenario.stretched(1, 0, Seconds(9), Seconds(3)), Seconds(stands ? 5 : 3));
    }
  }
}

// A share of exp(-detect / mttr) of the exponential lengths is noticed.
TEST(Lost, ChurnIsNoticedFromTheDetectionOn) {
  const Scenario scenario({"kind=churn,mtbf=30s,mttr=10s,mode=stopped"}, 1, 3, Seconds(10));
  constexpr double kEnd = 400'000;
  int lost = 0;
  for (Seconds time{0}; time < Seconds(kEnd); ++lost) {
    const Lost next = *scenario.lost(0, time);
    EXPECT_GE(next.returns - next.at, Seconds(10));
    time = next.returns;
  }
  EXPECT_NEAR(lost / (kEnd / 40), std::exp(-1), 0.02);
}

}  // namespace
}  // namespace hetsgd::test
