// Algorithm 2 of paper 002 by itself.

#include "algorithm/parts/learner_tuner.hpp"

#include <gtest/gtest.h>

namespace hetsgd::test {
namespace {

TEST(LearnerTuner, AddsWhileThroughputRisesByMoreThanTheThreshold) {
  LearnerTuner tuner(TunerKind::literal, 0.1);
  EXPECT_EQ(tuner.decide(100, 1), 2);    // t' = 0: any throughput is a rise
  EXPECT_EQ(tuner.decide(110.1, 2), 3);  // 10.1 % more
  EXPECT_EQ(tuner.decide(121, 3), 3);    // 9.9 %: neither more nor fewer
  EXPECT_EQ(tuner.decide(121, 3), 3);    // equal is no fall
}

TEST(LearnerTuner, AnyFallRemovesOneButNeverTheLast) {
  LearnerTuner tuner(TunerKind::literal, 0.1);
  tuner.decide(100, 3);
  EXPECT_EQ(tuner.decide(99.9, 3), 2);
  EXPECT_EQ(tuner.decide(80, 2), 1);
  EXPECT_EQ(tuner.decide(60, 1), 1);  // the paper's l_g > 0 would leave none
  EXPECT_EQ(tuner.decide(70, 1), 2);  // literal: goes on, with the last throughput as t'
}

TEST(LearnerTuner, StopEndsWithTheFirstRemoval) {
  LearnerTuner tuner(TunerKind::stop, 0.1);
  EXPECT_EQ(tuner.decide(100, 1), 2);
  EXPECT_EQ(tuner.decide(130, 2), 3);
  EXPECT_EQ(tuner.decide(129, 3), 2);
  EXPECT_EQ(tuner.decide(999, 2), 2);
  EXPECT_EQ(tuner.decide(1, 2), 2);
}

TEST(LearnerTuner, ThresholdZeroTakesAnyRise) {
  LearnerTuner tuner(TunerKind::literal, 0);
  tuner.decide(100, 1);
  EXPECT_EQ(tuner.decide(100.01, 2), 3);
  EXPECT_EQ(tuner.decide(100.01, 3), 3);
}

}  // namespace
}  // namespace hetsgd::test
