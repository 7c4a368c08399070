// CROSSBOW's algorithm 2 by itself: its literal forms, the robust one, and all three with a
// throughput that swings.

#include "algorithm/parts/learner_tuner.hpp"

#include "core/random.hpp"

namespace hetsgd::test {
namespace {

TEST(LearnerTuner, AddsWhileThroughputRisesByMoreThanTheThreshold) {
  LearnerTuner tuner({.kind = TunerKind::literal});
  EXPECT_EQ(tuner.decide(100, 1), 2);    // t' = 0: any throughput is a rise
  EXPECT_EQ(tuner.decide(110.1, 2), 3);  // 10.1 % more
  EXPECT_EQ(tuner.decide(121, 3), 3);    // 9.9 %: neither more nor fewer
  EXPECT_EQ(tuner.decide(121, 3), 3);    // equal is no fall
}

TEST(LearnerTuner, AnyFallRemovesOneButNeverTheLast) {
  LearnerTuner tuner({.kind = TunerKind::literal});
  tuner.decide(100, 3);
  EXPECT_EQ(tuner.decide(99.9, 3), 2);
  EXPECT_EQ(tuner.decide(80, 2), 1);
  EXPECT_EQ(tuner.decide(60, 1), 1);  // the paper's l_g > 0 would leave none
  EXPECT_EQ(tuner.decide(70, 1), 2);  // literal: goes on, with the last throughput as t'
}

TEST(LearnerTuner, StopEndsWithTheFirstRemoval) {
  LearnerTuner tuner({.kind = TunerKind::stop});
  EXPECT_EQ(tuner.decide(100, 1), 2);
  EXPECT_EQ(tuner.decide(130, 2), 3);
  EXPECT_EQ(tuner.decide(129, 3), 2);
  EXPECT_EQ(tuner.decide(999, 2), 2);
  EXPECT_EQ(tuner.decide(1, 2), 2);
}

TEST(LearnerTuner, ThresholdZeroTakesAnyRise) {
  LearnerTuner tuner({.kind = TunerKind::literal, .threshold = 0});
  tuner.decide(100, 1);
  EXPECT_EQ(tuner.decide(100.01, 2), 3);
  EXPECT_EQ(tuner.decide(100.01, 3), 3);
}

// Feeds a robust tuner one window of 3 after the other.
class Windows {
 public:
  // The number after a window with this median, its other two measurements far off on either side.
  int next(double median) {
    if (std::exchange(changed_, false)) decide(1e9);  // is not counted
    EXPECT_EQ(decide(0.01 * median), learners_);
    EXPECT_EQ(decide(100 * median), learners_);
    const int before = std::exchange(learners_, decide(median));
    changed_ = learners_ != before;
    return learners_;
  }

 private:
  int decide(double throughput) { return tuner_.decide(throughput, learners_); }

  LearnerTuner tuner_{{.kind = TunerKind::robust, .window = 3, .agree = 2}};
  int learners_ = 1;
  bool changed_ = false;
};

TEST(RobustTuner, ClimbsByMediansAndStepsBackWhenWindowsAgree) {
  Windows windows;
  EXPECT_EQ(windows.next(100), 2);
  EXPECT_EQ(windows.next(130), 3);  // 30 % more
  EXPECT_EQ(windows.next(129), 3);  // settled; below t' = 130, once
  EXPECT_EQ(windows.next(131), 3);  // not below
  EXPECT_EQ(windows.next(128), 3);
  EXPECT_EQ(windows.next(129), 2);  // twice in a row
  for (int i = 0; i < 20; ++i) EXPECT_EQ(windows.next(i % 2 == 0 ? 120 : 140), 2);  // within 10 %
}

// A settled device that becomes slower or faster by more than tau begins anew, at one learner
// fewer.
TEST(RobustTuner, BeginsAnewWhereTheMachineHasChanged) {
  for (const double factor : {0.5, 2.0}) {
    Windows windows;
    for (const double t : {100.0, 130.0, 135.0, 135.0}) windows.next(t);
    EXPECT_EQ(windows.next(135 * factor), 3);
    EXPECT_EQ(windows.next(135 * factor), 2);
    EXPECT_EQ(windows.next(130 * factor), 3);  // climbing: the first window has nothing to beat
    EXPECT_EQ(windows.next(150 * factor), 4);
    EXPECT_EQ(windows.next(150 * factor), 4);
  }
}

TEST(RobustTuner, KeepsTheLastLearner) {
  Windows windows;
  EXPECT_EQ(windows.next(100), 2);
  EXPECT_EQ(windows.next(50), 2);
  EXPECT_EQ(windows.next(50), 1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(windows.next(100), 1);
}

// --- throughput that swings ----------------------------------------------------------------------

// A device whose throughput with m learners has its knee at 4; every measurement is off by up to
// 10 %, evenly distributed.
struct Swinging {
  std::vector<double> throughput;  // from 1 learner on; the last value holds beyond

  double of(int learners) const {
    return throughput[std::min(static_cast<std::size_t>(learners), throughput.size()) - 1];
  }
};
const Swinging kFalls{{1.0, 1.5, 1.9, 2.2, 2.1, 2.0, 1.9, 1.8}};
const Swinging kStaysFlat{{1.0, 1.5, 1.9, 2.2}};

struct Outcome {
  int runs_at_knee = 0;   // end with 4 learners
  int runs_beside = 0;    // end with 5, the one that has to be tried
  int most_changes = 0;   // of the number after it has first reached the knee, in one run
  double changes = 0;     // their mean
  double efficiency = 0;  // mean throughput of the second half over the best
};

constexpr int kRuns = 100, kMeasurements = 400;

Outcome outcome_of(TunerKind kind, const Swinging& device, double swing) {
  constexpr int kKnee = 4;
  Outcome outcome;
  for (int run = 0; run < kRuns; ++run) {
    RandomStream random(7, Purpose::test, static_cast<std::uint64_t>(run));
    LearnerTuner tuner({.kind = kind});
    int learners = 1, changes = 0;
    bool reached = false;
    for (int i = 0; i < kMeasurements; ++i) {
      const int next =
          tuner.decide(device.of(learners) * random.uniform(1 - swing, 1 + swing), learners);
      changes += reached && next != learners;
      learners = next;
      reached = reached || learners >= kKnee;
      if (i >= kMeasurements / 2) outcome.efficiency += device.of(learners) / device.of(kKnee);
    }
    outcome.runs_at_knee += learners == kKnee;
    outcome.runs_beside += learners == kKnee + 1;
    outcome.most_changes = std::max(outcome.most_changes, changes);
    outcome.changes += changes;
  }
  outcome.changes /= kRuns;
  outcome.efficiency /= kRuns * kMeasurements / 2;
  return outcome;
}

// Prints the table of results/auto_tuner.md.
TEST(SwingingThroughput, CostsTheRobustTunerNothing) {
  for (const auto& [shape, device] : {std::pair{"falls", kFalls}, {"stays flat", kStaysFlat}}) {
    for (const double swing : {0.0, 0.03, 0.1}) {
      for (const auto& [name, kind] : {std::pair{"literal", TunerKind::literal},
                                       {"stop", TunerKind::stop},
                                       {"robust", TunerKind::robust}}) {
        const Outcome o = outcome_of(kind, device, swing);
        fmt::print("| {} | {:.0f} % | `{}` | {:.1f} | {} | {} | {} | {:.1f} % |\n", shape,
                   100 * swing, name, o.changes, o.most_changes, o.runs_at_knee, o.runs_beside,
                   100 * o.efficiency);
        if (kind == TunerKind::robust) {
          EXPECT_GT(o.efficiency, 0.99);
        }
      }
    }
  }
}

// After the knee `robust` tries one learner too many, may take it back, and is at rest; `literal`
// changes in half of its decisions, and `stop` ends anywhere.
TEST(SwingingThroughput, MovesTheLiteralFormAndNotTheRobustOne) {
  for (const Swinging& device : {kFalls, kStaysFlat}) {
    const Outcome literal = outcome_of(TunerKind::literal, device, 0.1),
                  stop = outcome_of(TunerKind::stop, device, 0.1),
                  robust = outcome_of(TunerKind::robust, device, 0.1);
    EXPECT_GT(literal.changes, 0.4 * kMeasurements);
    EXPECT_LT(literal.efficiency, 0.8);
    EXPECT_LT(literal.runs_at_knee, kRuns / 2);
    EXPECT_LT(stop.runs_at_knee + stop.runs_beside, kRuns * 9 / 10);
    EXPECT_LE(robust.most_changes, 6);
    EXPECT_LT(robust.changes, 2.5);
    EXPECT_GE(robust.runs_at_knee + robust.runs_beside, kRuns - 2);  // a median may miss a rise
    EXPECT_GT(robust.runs_at_knee, kRuns * 3 / 4);
  }
}

// Without noise all three find the knee; with a plateau behind it they keep the learner that does
// no harm.
TEST(SwingingThroughput, WithoutNoiseAllFindTheKnee) {
  for (const TunerKind kind : {TunerKind::literal, TunerKind::stop, TunerKind::robust}) {
    EXPECT_EQ(outcome_of(kind, kFalls, 0).runs_at_knee, kRuns);
    EXPECT_EQ(outcome_of(kind, kStaysFlat, 0).runs_beside, kRuns);
  }
}

}  // namespace
}  // namespace hetsgd::test
