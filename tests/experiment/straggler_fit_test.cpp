// A scenario that was injected is found again, with its parameters.
#include "experiment/replay/straggler_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cluster/straggler.hpp"
#include "cluster/straggler_kinds.hpp"
#include "core/error.hpp"
#include "support/failure.hpp"
#include "support/recorded.hpp"

namespace hetsgd::test {
namespace {

using testing::HasSubstr;

// Steps of 10 ms, one after the other, as a scenario of one worker stretches them.
StepSeries steps_under(const std::string& specification, std::uint64_t seed, std::size_t count) {
  constexpr double kStep = 0.01;
  const Scenario scenario({specification}, 1, seed);
  StepSeries steps;
  double now = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const double time = scenario.stretched(0, k, Seconds(now), Seconds(kStep)).count();
    steps.begin_s.push_back(now);
    steps.undisturbed_s.push_back(kStep);
    steps.excess_s.push_back(time - kStep);
    now += time;
  }
  steps.scatter = 1e-9;
  return steps;
}

struct Planted {
  const char* specification;
  std::map<std::string, double> parameters;
  std::size_t steps = 1000;
};

TEST(StragglerFits, FindKindAndParametersIn95Of100Seeds) {
  const Planted kinds[] = {
      {"kind=uniform,min=5ms,max=50ms", {{"min", 0.005}, {"max", 0.05}}},
      {"kind=uniform,min=0ms,max=50ms", {{"min", 0}, {"max", 0.05}}},
      {"kind=lognormal,median=10ms,sigma=1", {{"median", 0.01}, {"sigma", 1}}},
      {"kind=lognormal,median=3ms,sigma=0.5", {{"median", 0.003}, {"sigma", 0.5}}},
      {"kind=pareto,scale=10ms,shape=2", {{"scale", 0.01}, {"shape", 2}}},
      {"kind=periodic,period=1s,duration=200ms,factor=3",
       {{"period", 1}, {"duration", 0.2}, {"factor", 3}}},
      {"kind=burst,on=300ms,off=1s,factor=4", {{"on", 0.3}, {"off", 1}, {"factor", 4}}, 4000}};
  for (const Planted& planted : kinds) {
    SCOPED_TRACE(planted.specification);
    const std::string text = planted.specification;
    const std::string kind = text.substr(5, text.find(',') - 5);
    std::map<std::string, int> found, inside;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      WorkerFit fit;
      fit_kind(steps_under(text, seed, planted.steps), fit);
      ++found[fit.kind];
      for (const FittedParameter& each : fit.parameters) {
        const auto value = planted.parameters.find(each.key);
        if (fit.kind != kind || value == planted.parameters.end()) continue;
        const bool in = each.low <= value->second && value->second <= each.high;
        inside[each.key] += in ? 1 : 0;
      }
    }
    EXPECT_GE(found[kind], 95) << testing::PrintToString(found);
    for (const auto& [key, value] : planted.parameters) EXPECT_GE(inside[key], 90) << key;
  }
}

TEST(StragglerFits, AWorkerWithoutExcessHasNone) {
  StepSeries steps = steps_under("kind=constant,factor=1", 1, 500);
  WorkerFit fit;
  fit_kind(steps, fit);
  EXPECT_EQ(fit.kind, "none");
}

const Settings kRun = tiny("ssgd", "--workers 3 --max-samples 12800 --evaluate-every 12800");

TEST(StragglerFits, ARunGivesItsScenario) {
  const auto fits = fit_stragglers(
      recorded_timeline(with(kRun,
                             "--straggler kind=constant,worker=1,factor=3 --straggler "
                             "kind=uniform,worker=2,min=1ms,max=5ms")));
  ASSERT_EQ(fits.size(), 3U);
  EXPECT_EQ(fits[0].kind, "none");
  EXPECT_EQ(fits[0].factor, 1);
  EXPECT_EQ(fits[1].kind, "none");
  EXPECT_NEAR(fits[1].factor, 3, 1e-6);
  EXPECT_EQ(fits[2].kind, "uniform");
  EXPECT_EQ(fits[2].factor, 1);
  const auto specifications = specifications_of(fits, "");
  EXPECT_EQ(specifications.size(), 2U);
  const Scenario scenario(specifications, 3, 1);  // they are valid
}

// The exact trace gives the delays back.
TEST(StragglerFits, TheTraceHasTheDelays) {
  const std::string specification = "kind=lognormal,median=2ms,sigma=1";
  const Timeline timeline = recorded_timeline(with(kRun, {{"straggler", specification}}));
  const auto fits = fit_stragglers(timeline);
  const TemporaryFolder folder;
  const StraggleDelay delays = read_delay_trace(folder.write("t.csv", trace_csv(fits)), 3);
  const Scenario scenario({specification}, 3, 1);
  for (int rank = 0; rank < 3; ++rank) {
    for (std::uint64_t k = 0; k < fits[static_cast<std::size_t>(rank)].steps; ++k) {
      const Seconds injected = scenario.stretched(rank, k, Seconds(0), Seconds(1)) - Seconds(1);
      ASSERT_NEAR(delays(rank, k), injected.count(), 1e-9);
    }
  }
}

TEST(StragglerFits, FewStepsGiveATraceAlone) {
  const auto fits = fit_stragglers(
      recorded_timeline(with(kRun, "--max-samples 1920 --straggler kind=uniform,min=0ms,max=5ms")));
  EXPECT_EQ(fits[0].kind, "trace");
  EXPECT_EQ(specifications_of(fits, "t.csv")[0], "kind=trace,file=t.csv,workers=0");
  EXPECT_THAT(usage_error_of([&] { specifications_of(fits, ""); }),
              HasSubstr("--trace-csv: found no file, expected one"));
}

TEST(StragglerFits, StepTimesOfOtherToolsHaveTheirFastestStepAsBase) {
  std::string text = "worker,step,seconds\n";
  const Scenario scenario({"kind=uniform,min=0ms,max=50ms,workers=1"}, 2, 1);
  for (std::uint64_t step = 0; step < 200; ++step) {
    for (const int worker : {0, 1}) {
      const Seconds time = scenario.stretched(worker, step, Seconds(0), Seconds(0.1));
      text += fmt::format("{},{},{}\n", worker, step, time.count());
    }
  }
  const TemporaryFolder folder;
  const auto fits = fit_stragglers(read_timeline(folder.write("steps.csv", text)));
  EXPECT_EQ(fits[0].kind, "none");
  EXPECT_EQ(fits[1].kind, "uniform");
  EXPECT_NEAR(fits[1].parameters[1].value, 0.05, 0.002);
}

}  // namespace
}  // namespace hetsgd::test
