#include "cluster/straggler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace hetsgd {
namespace {

using testing::ElementsAre;

Scenario scenario(const std::vector<std::string>& specifications, int workers = 4,
                  std::uint64_t seed = 1) {
  return {specifications, workers, seed};
}

// The delay that iteration `iteration` of `rank` gets on top of its compute time.
double delay(const Scenario& s, int rank, std::uint64_t iteration) {
  return s.stretched(rank, iteration, 0s, 0s).count();
}

// The factor in effect at `time`, read off a step too short to cross a phase.
double factor_at(const Scenario& s, int rank, double time_s) {
  constexpr double kProbe = 1e-9;
  return s.stretched(rank, 0, Seconds(time_s), Seconds(kProbe)).count() / kProbe;
}

struct Failure {
  ExitCode code = ExitCode::ok;
  std::string message, hint;
};

Failure failure_of(const std::vector<std::string>& specifications) {
  try {
    scenario(specifications);
  } catch (const Error& error) {
    return {error.code(), error.what(), error.hint()};
  }
  return {};
}

class TraceFile {
 public:
  explicit TraceFile(const std::string& text)
      : path_(testing::TempDir() + "straggler_test_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv") {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TraceFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Straggler, NoneLeavesTheTimeAlone) {
  const Scenario s = scenario({});
  EXPECT_TRUE(s.empty());
  EXPECT_EQ(s.stretched(3, 17, Seconds(1e6), Seconds(0.1)), Seconds(0.1));
  EXPECT_TRUE(s.specifications().empty());
}

TEST(Straggler, ConstantMultiplies) {
  const Scenario s = scenario({"kind=constant,worker=2,factor=3", "kind=constant,factor=2"});
  EXPECT_FALSE(s.empty());
  EXPECT_EQ(s.stretched(2, 0, 0s, 0.5s), 3s);
  EXPECT_EQ(s.stretched(1, 5, 9s, 0.5s), 1s);
}

TEST(Straggler, UniformHasItsMoments) {
  const Scenario s = scenario({"kind=uniform,min=10ms,max=50ms,workers=1;3"});
  constexpr int n = 100'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double d = delay(s, 1, static_cast<std::uint64_t>(i));
    ASSERT_GE(d, 0.010);
    ASSERT_LT(d, 0.050);
    sum += d;
    squares += d * d;
  }
  const double variance = 0.04 * 0.04 / 12;
  EXPECT_NEAR(sum / n, 0.03, 5 * std::sqrt(variance / n));
  // Var of the square of U(a,b) bounds the error of the second moment.
  const double second = 0.03 * 0.03 + variance;
  const double fourth = (std::pow(0.05, 5) - std::pow(0.01, 5)) / (5 * 0.04);
  EXPECT_NEAR(squares / n, second, 5 * std::sqrt((fourth - second * second) / n));
  EXPECT_EQ(delay(s, 0, 0), 0.0);
  EXPECT_NE(delay(s, 1, 0), delay(s, 3, 0));
  EXPECT_EQ(s.stretched(1, 7, 5s, 1s).count(), 1.0 + delay(s, 1, 7));
}

TEST(Straggler, GroupsDrawFromTheirOwnRange) {
  const Scenario s = scenario({"kind=groups,split=1,max1=50ms,min2=50ms,max2=100ms"});
  constexpr int n = 20'000;
  double sum[2] = {0, 0};
  for (std::uint64_t i = 0; i < n; ++i) {
    const double fast = delay(s, 0, i), slow = delay(s, 1, i);
    ASSERT_LT(fast, 0.050);
    ASSERT_GE(slow, 0.050);
    ASSERT_LT(slow, 0.100);
    sum[0] += fast;
    sum[1] += slow;
  }
  const double error = 5 * 0.05 / std::sqrt(12.0 * n);
  EXPECT_NEAR(sum[0] / n, 0.025, error);
  EXPECT_NEAR(sum[1] / n, 0.075, error);
}

TEST(Straggler, LognormalHasItsMedianAndSpread) {
  const Scenario s = scenario({"kind=lognormal,median=20ms,sigma=0.5"});
  constexpr int n = 50'000;
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = std::log(delay(s, 0, i));
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n, variance = squares / n - mean * mean;
  EXPECT_NEAR(mean, std::log(0.02), 5 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(variance, 0.25, 5 * 0.25 * std::sqrt(2.0 / n));
}

TEST(Straggler, ParetoStartsAtZeroAndHasItsTail) {
  const Scenario s = scenario({"kind=pareto,scale=10ms,shape=1.5"});
  constexpr int n = 50'000;
  int above = 0, above_median = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double d = delay(s, 0, i);
    ASSERT_GE(d, 0.0);
    above += d > 0.030;  // Pareto above 4 * scale: probability (1/4)^1.5 = 1/8
    above_median += d > 0.010 * (std::pow(2.0, 1 / 1.5) - 1);
  }
  EXPECT_NEAR(above, n / 8.0, 5 * std::sqrt(n * 7.0 / 64));
  EXPECT_NEAR(above_median, n / 2.0, 5 * std::sqrt(n / 4.0));
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

TEST(Straggler, BurstIsTheTwoStateMarkovChain) {
  // on 2 s, off 6 s: stationary share 1/4, autocovariance share (1-share) exp(-lambda d), lambda =
  // 1/2+1/6.
  const Scenario s = scenario({"kind=burst,on=2s,off=6s,factor=5"});
  constexpr double kLambda = 1.0 / 2 + 1.0 / 6, kShare = 0.25, kApart = 1.5;
  constexpr int n = 20'000;
  int on = 0, both = 0;
  for (int i = 0; i < n; ++i) {
    const double time = 40.0 * i;  // e^-26: independent samples
    const double now = factor_at(s, 0, time), later = factor_at(s, 0, time + kApart);
    ASSERT_TRUE(now == 1.0 || now == 5.0) << now;
    on += now == 5.0;
    both += now == 5.0 && later == 5.0;
  }
  EXPECT_NEAR(on, n * kShare, 5 * std::sqrt(n * kShare * (1 - kShare)));
  const double expected = kShare * (kShare + (1 - kShare) * std::exp(-kLambda * kApart));
  EXPECT_NEAR(both, n * expected, 5 * std::sqrt(n * expected * (1 - expected)));
}

TEST(Straggler, BurstPhasesAreExponential) {
  const Scenario s = scenario({"kind=burst,on=1s,off=3s,factor=2"});
  // Phase lengths from a scan on a grid of 1/64 s.
  constexpr double kStep = 1.0 / 64;
  std::vector<double> lengths[2];
  double begin = 0;
  bool on = factor_at(s, 0, 0) > 1;
  for (int i = 1; i < 64 * 20'000; ++i) {
    const double time = i * kStep;
    const bool now = factor_at(s, 0, time) > 1;
    if (now == on) continue;
    lengths[on ? 1 : 0].push_back(time - begin);
    begin = time;
    on = now;
  }
  const double means[2] = {3, 1};
  for (const int state : {0, 1}) {
    const auto& x = lengths[state];
    double sum = 0;
    int long_ones = 0;
    for (const double length : x) {
      sum += length;
      long_ones += length > means[state];
    }
    const double n = static_cast<double>(x.size());
    ASSERT_GT(n, 4000);
    // The grid misses phases shorter than a step now and then, which joins their neighbours: about
    // step / (mean of the other state) of all.
    const double missed = kStep / means[1 - state];
    EXPECT_NEAR(sum / n, means[state], means[state] * (5 / std::sqrt(n) + 2 * missed));
    const double share = std::exp(-1.0);
    EXPECT_NEAR(long_ones / n, share, 5 * std::sqrt(share * (1 - share) / n) + 2 * missed);
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

TEST(Straggler, TraceReplaysAndRepeats) {
  TraceFile trace(
      "# delays of one run\nrank,iteration,delay_s\r\n0,0,0.5\n*,0,0.25\n0,2,1.5\n\n*, 1 , 2e-3\n");
  const Scenario s = scenario({"kind=trace,file=" + trace.path()});
  const auto row = [&](int rank) {
    std::vector<double> delays;
    for (std::uint64_t i = 0; i < 7; ++i) delays.push_back(delay(s, rank, i));
    return delays;
  };
  EXPECT_THAT(row(0), ElementsAre(0.5, 2e-3, 1.5, 0.5, 2e-3, 1.5, 0.5));
  EXPECT_THAT(row(3), ElementsAre(0.25, 2e-3, 0, 0.25, 2e-3, 0, 0.25));
}

TEST(Straggler, TraceErrorsNameThePlace) {
  const auto message = [](const std::string& text) {
    TraceFile trace(text);
    const Failure failure = failure_of({"kind=trace,file=" + trace.path()});
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_TRUE(failure.message.starts_with(trace.path())) << failure.message;
    return failure.message.substr(std::min(failure.message.size(), trace.path().size()));
  };
  EXPECT_EQ(message("0,0,1\n4,1,1\n"), ":2:1: found \"4\", expected a rank from 0 to 3, or *");
  EXPECT_EQ(message("0,x,1\n"), ":1:3: found \"x\", expected an iteration, counted from 0");
  EXPECT_EQ(message("0,0,-1\n"), ":1:5: found \"-1\", expected a delay in seconds");
  EXPECT_EQ(message("0,0,nan\n"), ":1:5: found \"nan\", expected a delay in seconds");
  EXPECT_EQ(message("0,0\n"), ":1:1: found 2 fields, expected 3: rank,iteration,delay_s");
  EXPECT_EQ(message("0,0,1\n\n0,0,2\n"),
            ":3:1: found the rank and iteration of line 1 again, expected them once");
  EXPECT_EQ(message("# empty\n"),
            ": found no rows, expected lines such as 2,0,0.05 (rank,iteration,delay_s)");
  EXPECT_EQ(failure_of({"kind=trace,file=/none.csv"}).message,
            "/none.csv: cannot be read, expected a trace of delays");
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

const std::vector<std::string> kOfEveryKind{"kind=constant,factor=1.5,workers=0-1",
                                            "kind=uniform,max=50ms",
                                            "kind=groups,split=2,max1=1ms,max2=2ms",
                                            "kind=lognormal,median=1ms",
                                            "kind=pareto,scale=1ms",
                                            "kind=periodic,period=1s,duration=200ms,factor=3",
                                            "kind=burst,on=300ms,off=700ms,factor=4",
                                            "kind=pause,at=5s,duration=1s"};

TEST(Straggler, IsAPureFunction) {
  // Any order of calls, from any thread, gives the same numbers; another seed gives others.
  const Scenario s = scenario(kOfEveryKind, 4, 7);
  const auto value = [&](const Scenario& from, int i) {
    return from.stretched(i % 4, static_cast<std::uint64_t>(i / 4), Seconds(0.037 * i), 0.02s)
        .count();
  };
  constexpr int n = 2000;
  std::vector<double> forward(n), backward(n), threaded(n);
  for (int i = 0; i < n; ++i) forward[static_cast<std::size_t>(i)] = value(s, i);
  const Scenario again = scenario(kOfEveryKind, 4, 7);
  for (int i = n - 1; i >= 0; --i) backward[static_cast<std::size_t>(i)] = value(again, i);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = t; i < n; i += 4) threaded[static_cast<std::size_t>(i)] = value(s, i);
      });
    }
  }
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(forward, threaded);
  const Scenario other = scenario(kOfEveryKind, 4, 8);
  int same = 0;
  for (int i = 0; i < n; ++i) same += value(other, i) == forward[static_cast<std::size_t>(i)];
  EXPECT_EQ(same, 0);
}

TEST(Straggler, NeverShortensAStep) {
  const Scenario s = scenario(kOfEveryKind);
  for (int i = 0; i < 5000; ++i) {
    const Seconds compute(1e-4 * (i % 97));
    EXPECT_GE(s.stretched(i % 4, static_cast<std::uint64_t>(i), Seconds(1e5 + 0.01 * i), compute),
              compute);
  }
}

TEST(Straggler, SpecificationsComeBackWithDefaults) {
  const Scenario s = scenario({" max=50ms , kind=uniform", "kind=constant,worker=2,factor=3",
                               "kind=lognormal,median=10ms,workers=0;2-3"});
  EXPECT_THAT(s.specifications(), ElementsAre("kind=uniform,min=0s,max=0.05s,workers=0-3",
                                              "kind=constant,factor=3,workers=2",
                                              "kind=lognormal,median=0.01s,sigma=1,workers=0;2-3"));
  // ... and mean the same.
  const Scenario all = scenario(kOfEveryKind), again = scenario(all.specifications());
  EXPECT_EQ(again.specifications(), all.specifications());
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Seconds start(0.1 * static_cast<double>(i));
    EXPECT_EQ(all.stretched(1, i, start, 50ms), again.stretched(1, i, start, 50ms));
  }
}

TEST(Straggler, ErrorsNameWhatWasFoundAndExpected) {
  const auto expect = [](const std::string& text, const std::string& message,
                         const std::string& hint = "") {
    const Failure failure = failure_of({text});
    EXPECT_EQ(failure.code, ExitCode::usage);
    EXPECT_EQ(failure.message, "--straggler \"" + text + "\"" + message);
    EXPECT_EQ(failure.hint, hint);
  };
  expect(
      "kind=unifrom,max=1s",
      ": found kind \"unifrom\", expected constant, uniform, groups, lognormal, pareto, periodic, "
      "burst, trace or pause",
      "did you mean \"uniform\"?");
  expect("kind=uniform,mx=1s", ": found key \"mx\", expected min, max or workers for kind uniform",
         "did you mean \"max\"?");
  expect("max=1s", ": found no kind, expected kind=NAME");
  expect("", ": found \"\", expected key=value pairs such as kind=uniform,min=0ms,max=50ms");
  expect("uniform",
         ": found \"uniform\", expected key=value pairs such as kind=uniform,min=0ms,max=50ms");
  expect("kind=uniform,max=1s,max=2s", ": found \"max\" twice, expected it once");
  expect("kind=uniform", ": found no max, expected one such as max=50ms");
  expect("kind=uniform,max=5x", ": max: found \"5x\", expected a time such as 90s, 50ms or 1.5h");
  expect("kind=uniform,min=50ms,max=10ms",
         ": max: found \"10ms\", expected a time of at least 50 ms");
  expect("kind=constant,factor=0.5",
         ": factor: found \"0.5\", expected a number from 1 to 1000000000");
  expect("kind=constant,factor=2,worker=4",
         ": workers: found \"4\", expected ranks from 0 to 3 such as 0-3;5, or all");
  expect("kind=periodic,period=1s,duration=2s,factor=2",
         ": duration: found \"2s\", expected a time no longer than the period");
  expect("kind=burst,on=0s,off=1s,factor=2",
         ": on: found \"0s\", expected a time of at least 1 us");
  expect("kind=lognormal,median=0s", ": median: found \"0s\", expected a time above 0");
  expect("kind=pareto,scale=1ms,shape=0",
         ": shape: found \"0\", expected a number from 0.5 to 1000");
  expect("kind=pause,at=1e300s,duration=1s",
         ": at: found \"1e300s\", expected a time of at most 1e+09 s");
  expect("kind=groups,split=5,max1=1s,max2=2s",
         ": split: found \"5\", expected a whole number from 0 to 4");
}

TEST(Straggler, AnExtremeSpecificationStillEnds) {
  // 1e9 s of clock in phases of 1 us: beyond 100,000 phases the mean rate takes over.
  const Scenario s =
      scenario({"kind=periodic,period=1us,duration=0.5us,factor=1e9",
                "kind=burst,on=1us,off=1us,factor=3", "kind=pause,at=100s,duration=7s"});
  const auto begin = std::chrono::steady_clock::now();
  const double got = s.stretched(0, 0, 0s, 1000s).count();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  // Rates 1/2 and 2/3: 3000 s and the pause.
  EXPECT_NEAR(got, 3007, 3);
}

TEST(Straggler, RefusesOurOwnNonsense) {
  const Scenario s = scenario({"kind=uniform,max=1s"});
  EXPECT_THROW(s.stretched(4, 0, 0s, 1s), CheckFailure);
  EXPECT_THROW(s.stretched(-1, 0, 0s, 1s), CheckFailure);
  EXPECT_THROW(s.stretched(0, 0, -1s, 1s), CheckFailure);
  EXPECT_THROW(s.stretched(0, 0, 0s, Seconds(NAN)), CheckFailure);
}

}  // namespace
}  // namespace hetsgd
