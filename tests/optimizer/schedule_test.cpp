#include "optimizer/schedule.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace hetsgd {
namespace {

// The factor at some epochs, by the formulas of schedule.hpp.
TEST(Schedule, FactorsByHand) {
  const struct {
    Schedule schedule;
    std::vector<std::pair<double, double>> factors;  // epoch, factor
  } cases[] = {
      {{}, {{0, 1}, {100, 1}}},
      {{.warmup_epochs = 4, .step_epochs = {}}, {{0, 0}, {1, 0.25}, {4, 1}, {5, 1}}},
      {{.kind = ScheduleKind::linear, .warmup_epochs = 2, .decay_epochs = 10, .step_epochs = {}},
       {{0, 0}, {1, 0.5}, {2, 1}, {4, 0.75}, {10, 0}, {11, 0}}},
      {{.kind = ScheduleKind::step, .step_epochs = {10, 15}, .step_factor = 0.5},
       {{9.99, 1}, {10, 0.5}, {14, 0.5}, {15, 0.25}}},
      {{.kind = ScheduleKind::inverse_time, .step_epochs = {}, .inverse_rate = 0.5},
       {{0, 1}, {2, 0.5}, {6, 0.25}}}};
  for (const auto& [schedule, factors] : cases) {
    for (const auto& [epoch, factor] : factors) {
      EXPECT_EQ(schedule.factor(epoch), factor) << static_cast<int>(schedule.kind) << " " << epoch;
    }
  }
}

TEST(Schedule, RefusesAKindWithoutItsNumbers) {
  const Schedule linear{
      .kind = ScheduleKind::linear, .warmup_epochs = 2, .decay_epochs = 2, .step_epochs = {}};
  EXPECT_THROW(linear.validate(), Error);
  EXPECT_THROW((Schedule{.kind = ScheduleKind::step, .step_epochs = {}}.validate()), Error);
  EXPECT_NO_THROW(Schedule().validate());
}

}  // namespace
}  // namespace hetsgd
