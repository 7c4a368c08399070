#include "optimizer/schedule.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace hetsgd {
namespace {

Schedule make(ScheduleKind kind, double warmup_epochs = 0) {
  Schedule schedule;
  schedule.kind = kind;
  schedule.warmup_epochs = warmup_epochs;
  return schedule;
}

TEST(Schedule, ConstantIsOneAfterTheWarmUp) {
  EXPECT_EQ(Schedule().factor(0), 1);
  EXPECT_EQ(Schedule().factor(100), 1);
  const Schedule warm = make(ScheduleKind::constant, 4);
  EXPECT_EQ(warm.factor(0), 0);
  EXPECT_EQ(warm.factor(1), 0.25);
  EXPECT_EQ(warm.factor(4), 1);
  EXPECT_EQ(warm.factor(5), 1);
}

TEST(Schedule, LinearRisesThenFallsToZero) {
  Schedule linear = make(ScheduleKind::linear, 2);
  linear.decay_epochs = 10;
  EXPECT_EQ(linear.factor(0), 0);
  EXPECT_EQ(linear.factor(1), 0.5);
  EXPECT_EQ(linear.factor(2), 1);
  EXPECT_EQ(linear.factor(4), 0.75);  // (10 - 4) / (10 - 2)
  EXPECT_EQ(linear.factor(10), 0);
  EXPECT_EQ(linear.factor(11), 0);
}

TEST(Schedule, StepMultipliesFromEachEpochOn) {
  Schedule step = make(ScheduleKind::step);
  step.step_epochs = {10, 15};
  step.step_factor = 0.5;
  EXPECT_EQ(step.factor(9.99), 1);
  EXPECT_EQ(step.factor(10), 0.5);
  EXPECT_EQ(step.factor(14), 0.5);
  EXPECT_EQ(step.factor(15), 0.25);
}

TEST(Schedule, InverseTimeIsOneOverOnePlusDT) {
  Schedule inverse = make(ScheduleKind::inverse_time);
  inverse.inverse_rate = 0.5;
  EXPECT_EQ(inverse.factor(0), 1);
  EXPECT_EQ(inverse.factor(2), 0.5);
  EXPECT_EQ(inverse.factor(6), 0.25);
}

TEST(Schedule, RefusesAKindWithoutItsNumbers) {
  Schedule linear = make(ScheduleKind::linear, 2);
  linear.decay_epochs = 2;
  EXPECT_THROW(linear.validate(), Error);
  EXPECT_THROW(make(ScheduleKind::step).validate(), Error);
  EXPECT_NO_THROW(Schedule().validate());
}

}  // namespace
}  // namespace hetsgd
