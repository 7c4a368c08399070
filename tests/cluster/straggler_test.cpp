// Effects of each kind of straggler on the time of a step.

#include "straggler_support.hpp"

namespace hetsgd {
namespace {

using test::delay;
using test::factor_at;
using test::scenario;
using test::TraceFile;

TEST(Straggler, NoneLeavesTheTimeAlone) {
  const Scenario s = scenario({});
  EXPECT_TRUE(s.specifications().empty());
  EXPECT_EQ(s.stretched(3, 17, Seconds(1e6), Seconds(0.1)), Seconds(0.1));
  EXPECT_TRUE(s.specifications().empty());
}

TEST(Straggler, ConstantMultiplies) {
  const Scenario s = scenario({"kind=constant,worker=2,factor=3", "kind=constant,factor=2"});
  EXPECT_FALSE(s.specifications().empty());
  EXPECT_EQ(s.stretched(2, 0, 0s, 0.5s), 3s);
  EXPECT_EQ(s.stretched(1, 5, 9s, 0.5s), 1s);
}

// P(delay < x) of each kind by its distribution function F, within 5 standard errors of a share.
struct Distribution {
  const char* specification;
  int rank;
  std::vector<std::pair<double, double>> points;  // x in seconds, F(x)
};

TEST(Straggler, DelaysHaveTheirDistribution) {
  const double median_of_pareto = 0.010 * (std::pow(2.0, 1 / 1.5) - 1);
  const Distribution distributions[] = {
      {"kind=uniform,min=10ms,max=50ms", 1, {{0.01, 0}, {0.02, 0.25}, {0.04, 0.75}, {0.05, 1}}},
      {"kind=groups,split=1,max1=50ms,min2=50ms,max2=100ms", 0, {{0.025, 0.5}, {0.05, 1}}},
      {"kind=groups,split=1,max1=50ms,min2=50ms,max2=100ms",
       1,
       {{0.05, 0}, {0.075, 0.5}, {0.1, 1}}},
      // z = -2, 0 and 1.
      {"kind=lognormal,median=20ms,sigma=0.5",
       0,
       {{0.02 * std::exp(-1.0), 0.02275}, {0.02, 0.5}, {0.02 * std::exp(0.5), 0.84134}}},
      {"kind=pareto,scale=10ms,shape=1.5", 0, {{0, 0}, {median_of_pareto, 0.5}, {0.03, 7.0 / 8}}},
  };
  constexpr int n = 50'000;
  for (const auto& [specification, rank, points] : distributions) {
    const Scenario s = scenario({specification});
    for (const auto& [x, share] : points) {
      int below = 0;
      for (std::uint64_t i = 0; i < n; ++i) below += delay(s, rank, i) < x;
      EXPECT_NEAR(below, n * share, 5 * std::sqrt(n * share * (1 - share)))
          << specification << " below " << x;
    }
  }
}

// The factors of 1 to 1.5 are uniform, and each holds for two iterations of a rank.
TEST(Straggler, JitterDrawsAFactorForAnIterationOfARank) {
  const Scenario s = scenario({"kind=jitter,factor=1.5,steps=2,workers=0-1"});
  constexpr int n = 20000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const auto factor = [&](int rank, int iteration) {
      return s.stretched(rank, static_cast<std::uint64_t>(iteration), 3s, 2s).count() / 2;
    };
    const double drawn = factor(0, 2 * i);
    ASSERT_TRUE(drawn >= 1 && drawn <= 1.5) << drawn;
    EXPECT_EQ(factor(0, 2 * i + 1), drawn);
    EXPECT_NE(factor(1, 2 * i), drawn);
    EXPECT_EQ(factor(2, 2 * i), 1);
    sum += drawn;
    squares += drawn * drawn;
  }
  const double mean = sum / n;
  EXPECT_NEAR(mean, 1.25, 5 * 0.5 / std::sqrt(12.0 * n));
  EXPECT_NEAR(squares / n - mean * mean, 0.25 / 12, 0.001);
}

// It multiplies the computation, with other factors, and neither delays nor a further part of the
// iteration.
TEST(Straggler, JitterMultipliesTheComputationOnly) {
  const std::string jitter = "kind=jitter,factor=1.2";
  const double drawn = scenario({jitter}).stretched(0, 7, 0s, 1s).count();
  const Scenario s = scenario({jitter, "kind=constant,factor=3", "kind=uniform,min=10ms,max=10ms"});
  EXPECT_NEAR(s.stretched(0, 7, 0s, 2s).count(), 6 * drawn + 0.01, 1e-12);
  EXPECT_EQ(s.stretched(0, std::nullopt, 0s, 2s), 6s);
}

TEST(Straggler, ADelayBelongsToAnIterationOfARank) {
  const Scenario s = scenario({"kind=uniform,min=10ms,max=50ms,workers=1;3"});
  EXPECT_EQ(delay(s, 0, 0), 0.0);
  EXPECT_NE(delay(s, 1, 0), delay(s, 3, 0));
  EXPECT_EQ(s.stretched(1, 7, 5s, 1s).count(), 1.0 + delay(s, 1, 7));
  EXPECT_EQ(s.stretched(1, std::nullopt, 5s, 1s), 1s);  // more of an iteration that has had it
}

TEST(Straggler, PeriodicIntegratesOverTheStep) {
  // Slow by 4 during [0,2), [10,12), ...
  const Scenario s = scenario({"kind=periodic,period=10s,duration=2s,factor=4"});
  const auto t = [&](double start, double compute) {
    return s.stretched(0, 0, Seconds(start), Seconds(compute)).count();
  };
  EXPECT_DOUBLE_EQ(t(0, 0.25), 1.0);         // inside the slow part
  EXPECT_DOUBLE_EQ(t(0, 0.5), 2.0);          // exactly all of it
  EXPECT_DOUBLE_EQ(t(0, 1.5), 3.0);          // 0.5 s of work in 2 s, 1 s at full speed
  EXPECT_DOUBLE_EQ(t(3, 5), 5.0);            // between the slow parts
  EXPECT_DOUBLE_EQ(t(9, 1.25), 2.0);         // 1 s at full speed, 0.25 in 1 s
  EXPECT_DOUBLE_EQ(t(9, 1 + 0.5 + 3), 6.0);  // across a whole slow part
  // Whole periods: 10 s do 8.5 s of work.
  EXPECT_DOUBLE_EQ(t(0, 850), 1000.0);
  EXPECT_DOUBLE_EQ(t(1'000'003, 5), 5.0);
}

TEST(Straggler, PeriodicCombinedWithAConstantFactor) {
  // Factors multiply: 2 outside, 8 inside the slow part.
  const Scenario s = scenario(
      {"kind=periodic,period=10s,duration=2s,factor=4", "kind=constant,factor=2,worker=0"});
  EXPECT_DOUBLE_EQ(s.stretched(0, 0, 0s, 1s).count(), 3.5);  // 0.25 in 2 s, 0.75 in 1.5 s
  EXPECT_DOUBLE_EQ(s.stretched(1, 0, 0s, 1s).count(), 2.5);
}

TEST(Straggler, TwoPeriodicFactorsMultiplyWhereTheyOverlap) {
  // Factor 2 in [0,2) of 4, factor 3 in [0,1) of 4: 6 in [0,1), 2 in [1,2), 1 in [2,4).
  const Scenario s = scenario({"kind=periodic,period=4s,duration=2s,factor=2",
                               "kind=periodic,period=4s,duration=1s,factor=3"});
  EXPECT_DOUBLE_EQ(s.stretched(0, 0, 0s, Seconds(1.0 / 6 + 0.5 + 2)).count(), 4.0);
}

TEST(Straggler, NothingMovesInAPause) {
  const Scenario s = scenario({"kind=pause,at=10s,duration=5s,workers=0"});
  const auto t = [&](double start, double compute) {
    return s.stretched(0, 0, Seconds(start), Seconds(compute)).count();
  };
  EXPECT_DOUBLE_EQ(t(0, 9), 9.0);
  EXPECT_DOUBLE_EQ(t(0, 10), 10.0);  // ends as the pause begins
  EXPECT_DOUBLE_EQ(t(9, 2), 7.0);
  EXPECT_DOUBLE_EQ(t(12, 1), 4.0);
  EXPECT_DOUBLE_EQ(t(15, 1), 1.0);
  EXPECT_EQ(s.stretched(1, 0, 9s, 2s), 2s);
}

TEST(Straggler, PausesAlsoHoldDelaysAndOverlap) {
  TraceFile trace("0,0,2\n");
  const Scenario s = scenario({"kind=trace,file=" + trace.path(), "kind=pause,at=10s,duration=5s",
                               "kind=pause,at=12s,duration=6s", "kind=pause,at=30s,duration=0s"});
  // 1 s of work to 9.5, 0.5 s of delay to 10, pause to 18, the other 1.5 s of delay.
  EXPECT_DOUBLE_EQ(s.stretched(0, 0, 8.5s, 1s).count(), 11.0);
  EXPECT_DOUBLE_EQ(s.stretched(0, 1, 29s, 2s).count(), 4.0);  // delay again: the trace repeats
}

TEST(Straggler, SlowPhasesDoNotStretchDelays) {
  TraceFile trace("*,0,4\n");
  const Scenario s = scenario(
      {"kind=trace,file=" + trace.path(), "kind=periodic,period=10s,duration=5s,factor=100"});
  EXPECT_DOUBLE_EQ(s.stretched(0, 0, 0s, 0.01s).count(), 5.0);
}

// On 2 s, off 6 s on average: the stationary share is 1/4, and two instants that lie d apart are
// both on with share (share + (1 - share) exp(-lambda d)), lambda = 1/2 + 1/6.
TEST(Straggler, BurstIsTheTwoStateMarkovChain) {
  const Scenario s = scenario({"kind=burst,on=2s,off=6s,factor=5"});
  constexpr double kLambda = 1.0 / 2 + 1.0 / 6, kShare = 0.25;
  constexpr int n = 20'000;
  for (const double apart : {0.25, 1.5, 4.0}) {
    int on = 0, both = 0;
    for (int i = 0; i < n; ++i) {
      const double time = 40.0 * i;  // e^-26: independent samples
      const double now = factor_at(s, 0, time), later = factor_at(s, 0, time + apart);
      ASSERT_TRUE(now == 1.0 || now == 5.0) << now;
      on += now == 5.0;
      both += now == 5.0 && later == 5.0;
    }
    EXPECT_NEAR(on, n * kShare, 5 * std::sqrt(n * kShare * (1 - kShare)));
    const double expected = kShare * (kShare + (1 - kShare) * std::exp(-kLambda * apart));
    EXPECT_NEAR(both, n * expected, 5 * std::sqrt(n * expected * (1 - expected)));
  }
}

TEST(Straggler, BurstIntegratesItsPhases) {
  // A long step takes as long as the sum of short ones that follow each other.
  const Scenario s = scenario({"kind=burst,on=500ms,off=2s,factor=3", "kind=constant,factor=2"});
  for (const double start : {0.0, 17.3, 123456.7}) {
    double pieces = 0;
    for (int i = 0; i < 5000; ++i) {
      pieces += s.stretched(1, 0, Seconds(start + pieces), 10ms).count();
    }
    EXPECT_NEAR(s.stretched(1, 0, Seconds(start), 50s).count(), pieces, 1e-6);
    EXPECT_GT(pieces, 100.0);
    EXPECT_LT(pieces, 300.0);
  }
}

TEST(Straggler, BurstsOfRanksAreIndependent) {
  const Scenario s = scenario({"kind=burst,on=1s,off=1s,factor=2"});
  int same = 0;
  constexpr int n = 10'000;
  for (int i = 0; i < n; ++i) same += factor_at(s, 0, 20.0 * i) == factor_at(s, 1, 20.0 * i);
  EXPECT_NEAR(same, n / 2.0, 5 * std::sqrt(n / 4.0));
}
TEST(Straggler, DelaysOfSeveralAddUp) {
  const Scenario one = scenario({"kind=uniform,max=50ms"});
  const Scenario two = scenario({"kind=uniform,max=50ms", "kind=uniform,max=50ms"});
  const Scenario pause = scenario({"kind=uniform,max=50ms", "kind=uniform,max=50ms,worker=1"});
  // The first draws the same in all; the second is independent of it.
  EXPECT_EQ(delay(pause, 0, 3), delay(one, 0, 3));
  EXPECT_EQ(delay(pause, 1, 3), delay(two, 1, 3));
  EXPECT_GT(delay(two, 0, 3), delay(one, 0, 3));
  EXPECT_NE(delay(two, 0, 3), 2 * delay(one, 0, 3));
}
}  // namespace
}  // namespace hetsgd
