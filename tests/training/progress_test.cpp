// The arithmetic of the progress line.

#include "training/training.hpp"

namespace hetsgd {
namespace {

Progress quarter() {
  Progress p;
  p.time = Seconds(5);
  p.host_s = 10;
  p.samples_count = 1000;
  p.max_samples = 4000;
  p.measurement_s = 2;
  p.measurements_left = 3;
  return p;
}

TEST(Progress, TrainingAtItsPaceAndTheMeasurementsToCome) {
  const Progress p = quarter();
  EXPECT_EQ(p.share_done(), 0.25);
  EXPECT_EQ(p.samples_per_s(), 200);  // on the training clock, not on the host's
  EXPECT_EQ(p.remaining()->count(), 30 + 3 * 2);
}

// While the model is measured, however long, the pace of training stays what it was.
TEST(Progress, MeasuringTakesNothingFromThePace) {
  Progress p = quarter();
  for (const auto& [measuring_s, left_s] : {std::pair{0.5, 1.5}, {2.0, 0.0}, {100.0, 0.0}}) {
    p.measuring_s = measuring_s;
    EXPECT_EQ(p.samples_per_s(), 200);
    EXPECT_EQ(p.remaining()->count(), 36 + left_s);
  }
}

// A process that goes on from a checkpoint has trained the rest of the share alone.
TEST(Progress, ThePaceOfAResumedRunIsThatAfterTheResume) {
  Progress p = quarter();
  p.share_before = 0.125;
  EXPECT_EQ(p.remaining()->count(), 60 + 3 * 2);
  p.share_before = 0.25;
  EXPECT_FALSE(p.remaining());
}

TEST(Progress, TheBudgetThatEndsFirstCounts) {
  Progress p = quarter();
  p.max_time = Seconds(10);
  EXPECT_EQ(p.share_done(), 0.5);
  p = Progress{};
  EXPECT_EQ(p.share_done(), 0);
  EXPECT_EQ(p.samples_per_s(), 0);
  EXPECT_FALSE(p.remaining());
}

}  // namespace
}  // namespace hetsgd
