#include "optimizer/schedule.hpp"

#include "core/error.hpp"
#include "support/failure.hpp"

namespace hetsgd {
namespace {

// The factor at some epochs, by the formulas of schedule.hpp.
TEST(Schedule, FactorsByHand) {
  const struct {
    Schedule schedule;
    std::vector<std::pair<double, double>> factors;  // epoch, factor
  } cases[] = {
      {{}, {{0, 1}, {100, 1}}},
      {{.warmup_epochs = 4}, {{0, 0}, {1, 0.25}, {4, 1}, {5, 1}}},
      {{.kind = ScheduleKind::linear, .warmup_epochs = 2, .decay_epochs = 10},
       {{0, 0}, {1, 0.5}, {2, 1}, {4, 0.75}, {10, 0}, {11, 0}}},
      {{.kind = ScheduleKind::cosine, .warmup_epochs = 2, .decay_epochs = 10, .lr_floor = 0.1},
       {{0, 0}, {1, 0.5}, {2, 1}, {6, 0.55}, {10, 0.1}, {11, 0.1}}},
      {{.kind = ScheduleKind::cosine, .decay_epochs = 9, .lr_floor = 0}, {{0, 1}, {3, 0.75}}},
      {{.kind = ScheduleKind::step, .step_epochs = {10, 15}, .step_factor = 0.5},
       {{9.99, 1}, {10, 0.5}, {14, 0.5}, {15, 0.25}}},
      {{.kind = ScheduleKind::inverse_time, .inverse_rate = 0.5}, {{0, 1}, {2, 0.5}, {6, 0.25}}},
      {{.kind = ScheduleKind::polynomial, .warmup_epochs = 2, .decay_epochs = 18},
       {{0, 0}, {1, 0.5}, {2, 1}, {14, 0.5}, {17, 0.25}, {18, 0}, {19, 0}}},
      {{.kind = ScheduleKind::polynomial,
        .warmup_epochs = 12,
        .decay_epochs = 16,
        .decay_from = DecayFrom::start},
       {{0, 0}, {6, 0.5}, {12, 0.5}, {15, 0.25}, {16, 0}}},
      {{.kind = ScheduleKind::polynomial, .warmup_epochs = 2, .decay_epochs = 10, .decay_power = 1},
       {{0, 0}, {1, 0.5}, {2, 1}, {4, 0.75}, {10, 0}, {11, 0}}},
      {{.kind = ScheduleKind::inverse_sqrt, .warmup_epochs = 4},
       {{0, 0}, {1, 0.25}, {4, 1}, {16, 0.5}, {64, 0.25}}}};
  for (const auto& [schedule, factors] : cases) {
    for (const auto& [epoch, factor] : factors) {
      EXPECT_DOUBLE_EQ(schedule.factor(epoch), factor)
          << static_cast<int>(schedule.kind) << " " << epoch;
    }
  }
}

// NVIDIA's BERT-Large, phase 1: the rate falls from 1 to 0.846 at the end of the warm-up.
TEST(Schedule, ADecayFromTheStartDropsAtTheWarmUp) {
  const Schedule bert{.kind = ScheduleKind::polynomial,
                      .decay_epochs = 1,
                      .decay_from = DecayFrom::start,
                      .warmup_share = 0.2843};
  const Schedule run = bert.of_run(7);
  EXPECT_EQ(run.warmup_epochs, 0.2843);
  EXPECT_NEAR(run.factor(0.2843 - 1e-9), 1, 1e-8);
  EXPECT_NEAR(run.factor(0.2843), 0.846, 0.0005);
}

TEST(Schedule, TheRunSaysWhatIsNotGiven) {
  const Schedule linear{.kind = ScheduleKind::linear, .warmup_share = 0.25};
  EXPECT_EQ(linear.of_run(8).decay_epochs, 8);
  EXPECT_EQ(linear.of_run(8).warmup_epochs, 2);
  EXPECT_EQ(linear.of_run(8).factor(5), 0.5);
  const Schedule constant{.warmup_share = 0.5};
  EXPECT_EQ(constant.of_run(8).warmup_epochs, 4);
  EXPECT_EQ(constant.of_run(8).decay_epochs, std::nullopt);
  // A schedule whose numbers are given stays as it is, whatever the run.
  const Schedule given{.kind = ScheduleKind::linear, .warmup_epochs = 1, .decay_epochs = 3};
  EXPECT_EQ(given.of_run(0).factor(2), 0.5);
}

TEST(Schedule, RefusesAKindWithoutItsNumbers) {
  const auto error = [](const Schedule& schedule, double epochs) {
    return test::error_of([&] { schedule.validate(), schedule.of_run(epochs); }, ExitCode::usage);
  };
  for (const ScheduleKind kind :
       {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::polynomial}) {
    EXPECT_THAT(error({.kind = kind, .warmup_epochs = 2, .decay_epochs = 2}, 9),
                HasSubstr("--decay-epochs: found 2, expected more than the warm-up of 2 epochs"));
    EXPECT_THAT(error({.kind = kind, .warmup_epochs = 2}, 1),
                HasSubstr("--decay-epochs: found 1, expected more than the warm-up of 2 epochs"));
    EXPECT_THAT(error({.kind = kind, .warmup_share = 1}, 3),
                HasSubstr("more than the warm-up of 3 epochs"));
    EXPECT_THAT(error({.kind = kind}, 0),
                HasSubstr("--decay-epochs: found a run whose length is given as --max-time alone"));
  }
  EXPECT_THAT(error({.warmup_epochs = 1, .warmup_share = 0.1}, 4),
              HasSubstr("--warmup-share: found 0.1 beside --warmup-epochs 1"));
  EXPECT_THAT(error({.warmup_share = 0.1}, 0), HasSubstr("--warmup-share"));
  EXPECT_THAT(error({.kind = ScheduleKind::step}, 1), HasSubstr("--step-epochs"));
  EXPECT_THAT(error({.kind = ScheduleKind::inverse_sqrt}, 1),
              HasSubstr("--warmup-epochs: found 0"));
  EXPECT_NO_THROW(Schedule().validate());
}

}  // namespace
}  // namespace hetsgd
