// Straggler specifications: traces, what comes back of them, errors, and promises about all kinds.

#include "cluster/straggler_kinds.hpp"
#include "core/error.hpp"
#include "straggler_support.hpp"
#include "support/failure.hpp"

namespace hetsgd {
namespace {

using test::delay;
using test::factor_at;
using test::Failure;
using test::scenario;
using test::TraceFile;

Failure failure_of(const std::vector<std::string>& specifications) {
  return test::failure_of([&] { scenario(specifications); });
}

TEST(StragglerSpecification, TraceReplaysAndRepeats) {
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

TEST(StragglerSpecification, TraceErrorsNameThePlace) {
  const auto message = [](const std::string& text) {
    TraceFile trace(text);
    const Failure failure = failure_of({"kind=trace,file=" + trace.path()});
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_TRUE(failure.message.starts_with(trace.path())) << failure.message;
    return failure.message.substr(std::min(failure.message.size(), trace.path().size()));
  };
  EXPECT_EQ(message("0,0,1\n4,1,1\n"), ":2:1: found \"4\", expected a rank from 0 to 3, or *");
  EXPECT_EQ(message("0,x,1\n"), ":1:3: found \"x\", expected an iteration, counted from 0");
  EXPECT_EQ(message("0,0,-1\n"), ":1:5: found \"-1\", expected a delay from 0 to 1e+09 s");
  EXPECT_EQ(message("0,0,nan\n"), ":1:5: found \"nan\", expected a delay from 0 to 1e+09 s");
  EXPECT_EQ(message("0,0,1e308\n"), ":1:5: found \"1e308\", expected a delay from 0 to 1e+09 s");
  EXPECT_EQ(message("0,0\n"), ":1:1: found 2 fields, expected 3: rank,iteration,delay_s");
  EXPECT_EQ(message("0,0,1\n\n0,0,2\n"),
            ":3:1: found the rank and iteration of line 1 again, expected them once");
  EXPECT_EQ(message("rank,iteration,delay_ms\n1,0,5\n"),
            ":1:1: found \"rank,iteration,delay_ms\", expected the header rank,iteration,delay_s");
  EXPECT_EQ(message("# empty\n"),
            ": found no rows, expected lines such as 2,0,0.05 (rank,iteration,delay_s)");
  EXPECT_EQ(failure_of({"kind=trace,file=/none.csv"}).message,
            "/none.csv: cannot open the trace of delays: No such file or directory");
}

// Each is allowed; together they would leave the doubles.
TEST(StragglerSpecification, FactorsThatMultiplyBeyondTheClockAreRefused) {
  const std::vector<std::string> constant(2, "kind=constant,factor=1e9,workers=1-2");
  EXPECT_EQ(failure_of(constant).message,
            "--straggler \"kind=constant,factor=1e9,workers=1-2\": found factors of worker 1 that "
            "multiply to 1e+18, expected at most 1e+12");
  const std::vector<std::string> phases(2, "kind=periodic,period=1s,duration=1s,factor=1e9");
  EXPECT_EQ(failure_of(phases).code, ExitCode::usage);
  EXPECT_EQ(failure_of({constant[0], "kind=constant,factor=1e9,workers=3"}).code, ExitCode::ok);
}

const std::vector<std::string> kOfEveryKind{"kind=constant,factor=1.5,workers=0-1",
                                            "kind=jitter,factor=1.2,steps=3",
                                            "kind=uniform,max=50ms",
                                            "kind=groups,split=2,max1=1ms,max2=2ms",
                                            "kind=lognormal,median=1ms",
                                            "kind=pareto,scale=1ms",
                                            "kind=periodic,period=1s,duration=200ms,factor=3",
                                            "kind=burst,on=300ms,off=700ms,factor=4",
                                            "kind=pause,at=5s,duration=1s"};

TEST(StragglerSpecification, IsAPureFunction) {
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

TEST(StragglerSpecification, NeverShortensAStep) {
  const Scenario s = scenario(kOfEveryKind);
  for (int i = 0; i < 5000; ++i) {
    const Seconds compute(1e-4 * (i % 97));
    EXPECT_GE(s.stretched(i % 4, static_cast<std::uint64_t>(i), Seconds(1e5 + 0.01 * i), compute),
              compute);
  }
}

TEST(StragglerSpecification, SpecificationsComeBackWithDefaults) {
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

TEST(StragglerSpecification, ErrorsNameWhatWasFoundAndExpected) {
  const auto expect = [](const std::string& text, const std::string& message,
                         const std::string& hint = "") {
    const Failure failure = failure_of({text});
    EXPECT_EQ(failure.code, ExitCode::usage);
    EXPECT_EQ(failure.message, "--straggler \"" + text + "\"" + message);
    EXPECT_EQ(failure.hint, hint);
  };
  expect("kind=unifrom,max=1s",
         ": found kind \"unifrom\", expected constant, jitter, uniform, groups, lognormal, pareto, "
         "periodic, "
         "burst, trace, pause, fail, return or churn",
         "did you mean \"uniform\"?");
  expect("kind=uniform,mx=1s", ": found key \"mx\", expected min, max or workers",
         "did you mean \"max\"?");
  expect("max=1s", ": found no kind, expected kind=NAME");
  expect("kind=uniform,min=50ms,max=10ms",
         ": max: found \"10ms\", expected a time of at least 50 ms");
  expect("kind=constant,factor=0.5",
         ": factor: found \"0.5\", expected a number from 1 to 1000000000");
  expect("kind=constant,factor=2,worker=4",
         ": workers: found \"4\", expected ranks from 0 to 3 such as 0-3;5, or all");
  expect("kind=periodic,period=1s,duration=2s,factor=2",
         ": duration: found \"2s\", expected a time no longer than the period");
  expect("kind=burst,on=0s,off=1s,factor=2",
         ": on: found \"0s\", expected a time in seconds from 1e-06 to 1000000000");
  expect("kind=lognormal,median=0s",
         ": median: found \"0s\", expected a time in seconds above 0 and up to 1000000000");
  expect("kind=pareto,scale=1ms,shape=0",
         ": shape: found \"0\", expected a number from 0.5 to 1000");
  expect("kind=pause,at=1e300s,duration=1s",
         ": at: found \"1e300s\", expected a time in seconds from 0 to 1000000000");
  expect("kind=groups,split=5,max1=1s,max2=2s",
         ": split: found \"5\", expected a whole number from 0 to 4");
}

TEST(StragglerSpecification, AnExtremeSpecificationStillEnds) {
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

TEST(StragglerSpecification, RefusesOurOwnNonsense) {
  const Scenario s = scenario({"kind=uniform,max=1s"});
  EXPECT_THROW(s.stretched(4, 0, 0s, 1s), CheckFailure);
  EXPECT_THROW(s.stretched(-1, 0, 0s, 1s), CheckFailure);
  EXPECT_THROW(s.stretched(0, 0, -1s, 1s), CheckFailure);
  EXPECT_THROW(s.stretched(0, 0, 0s, Seconds(NAN)), CheckFailure);
}

// The specification of each kind takes exactly the keys that the catalogue shows.
TEST(Stragglers, EveryKindIsDescribedAndItsExampleReads) {
  for (const RegisteredStraggler& each : straggler_kinds()) {
    EXPECT_FALSE(each.info.idea.empty() || each.info.title.empty()) << each.info.name;
    OptionSet keys;
    const auto kind = each.make();
    kind->declare(keys);
    for (const Option& key : keys.options()) {
      EXPECT_FALSE(key.help.empty()) << each.info.name << ": " << key.name;
    }
    if (each.info.name == "trace") continue;  // reads a file
    const Straggler straggler = make_straggler(each.info.example, 8, 1);
    EXPECT_EQ(straggler.canonical.find("kind=" + each.info.name + ","), 0u);
    EXPECT_EQ(make_straggler(straggler.canonical, 8, 1).canonical, straggler.canonical);
  }
}

}  // namespace
}  // namespace hetsgd
