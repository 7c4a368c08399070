// A replay: timelines that can be checked by hand, and records of runs, which give their own times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "core/random.hpp"
#include "experiment/replay/what_if.hpp"
#include "support/failure.hpp"
#include "support/recorded.hpp"

namespace hetsgd::test {
namespace {

using testing::HasSubstr;

Timeline timeline_in(const std::string& text) {
  const TemporaryFolder folder;
  return read_timeline(folder.write("run", text));
}

// Two workers, times of calls in seconds.
std::string two_workers(const std::string& calls, const std::string& services = "") {
  return R"({"hetsgd_timeline":1,"config":{},"cluster":"sim","clock_resolution_s":0,"workers":2,)"
         R"("elapsed_s":3,"processes":[{"rank":0,"name":"worker 0","main":true},)"
         R"({"rank":1,"name":"worker 1","main":true}])" +
         services + "}\n" + calls;
}

// Every call has exactly its recorded times.
void expect_own_times(const Timeline& timeline, double tolerance = 0) {
  const Retiming retiming(timeline);
  const RetimedRun run = retiming.run(retiming.own());
  for (std::size_t l = 0; l < timeline.processes.size(); ++l) {
    const TraceLine& line = timeline.processes[l];
    for (std::size_t r = 0; r < line.ranges.size(); ++r) {
      ASSERT_NEAR(run.calls[l][r].begin_s, line.ranges[r].begin.count(), tolerance) << line.name;
      ASSERT_NEAR(run.calls[l][r].end_s, line.ranges[r].end.count(), tolerance) << line.name;
    }
  }
}

// Steps of 1 and 3 s, then of 2 and 1 s, each followed by a barrier: 3 + 2 = 5 s. The mean step is
// 1.75 s.
TEST(Replay, StepsBetweenBarriers) {
  const Timeline timeline = timeline_in("worker,step,seconds\n0,0,1\n1,0,3\n0,1,2\n1,1,1\n");
  expect_own_times(timeline);
  const Retiming retiming(timeline);
  const WhatIf what_if(retiming);
  const Attribution attribution = attribute(retiming, what_if);
  EXPECT_DOUBLE_EQ(attribution.total.count(), 5);
  EXPECT_DOUBLE_EQ(attribution.ideal.count(), 3.5);
  EXPECT_EQ(attribution.gap_share, 0);
  EXPECT_FALSE(attribution.decisions_frozen);
  ASSERT_EQ(attribution.workers.size(), 2U);
  EXPECT_EQ(attribution.workers[0].rank, 1);
  EXPECT_DOUBLE_EQ(attribution.workers[0].slowdown, 4.75 / 3.5);
  EXPECT_DOUBLE_EQ(attribution.workers[0].share, 1.25 / 1.5);
  EXPECT_DOUBLE_EQ(attribution.workers[1].slowdown, 3.75 / 3.5);
  EXPECT_DOUBLE_EQ(attribution.workers[1].share, 0.25 / 1.5);
  EXPECT_EQ(attribution.kinds[0].name, "step");
  EXPECT_DOUBLE_EQ(attribution.kinds[0].share, 1);

  PerCall times = what_if.recorded();
  what_if.leave_out("worker=1", times);
  EXPECT_DOUBLE_EQ(retiming.run(times).total.count(), 3.75);
  times = what_if.recorded();
  what_if.change_speed({1, 2}, times);
  EXPECT_DOUBLE_EQ(retiming.run(times).total.count(), 1.5 + 2);
}

// Worker 1 waits from 1 s on for what worker 0 sends after 2 s and 0.5 s of transfer. Twice as
// fast, worker 0 sends at 1 s.
TEST(Replay, AMessageWaitsForItsSender) {
  const Timeline timeline = timeline_in(two_workers(
      R"({"p":1,"c":"compute","n":"step","e":1})"
      "\n"
      R"({"p":0,"c":"compute","n":"step","e":2})"
      "\n"
      R"({"p":0,"c":"communicate","n":"send","e":2.5,"k":"send","o":1})"
      "\n"
      R"({"p":1,"c":"communicate","n":"receive","e":2.75,"w":1.5,"k":"receive","r":1,"o":0})"
      "\n{\"lines\":4}\n"));
  expect_own_times(timeline);
  const Retiming retiming(timeline);
  PerCall times = retiming.own();
  WhatIf(retiming).change_speed({2, 1}, times);
  const RetimedRun run = retiming.run(times);
  EXPECT_DOUBLE_EQ(run.calls[0][1].end_s, 1.5);
  EXPECT_DOUBLE_EQ(run.calls[1][1].end_s, 1.75);
}

// The service takes 0.5 s for a request, and a way to it 0.125 s. Worker 1's request queues behind
// that of worker 0. If worker 0 is late, it is the other way round.
TEST(Replay, AServiceServesByReplayedArrival) {
  const Timeline timeline = timeline_in(
      two_workers(R"({"p":0,"c":"compute","n":"step","e":1})"
                  "\n"
                  R"({"p":1,"c":"compute","n":"step","e":1.25})"
                  "\n"
                  R"({"p":2,"c":"served","b":1.125,"e":1.625,"k":"served","o":0,"a":[0,0,0,1.625]})"
                  "\n"
                  R"({"p":0,"c":"service","n":"service s","e":1.75,"k":"service"})"
                  "\n"
                  R"({"p":2,"c":"served","e":2.125,"k":"served","o":1,"a":[0,0,1,2.125]})"
                  "\n"
                  R"({"p":1,"c":"service","n":"service s","e":2.25,"k":"service"})"
                  "\n{\"lines\":6}\n",
                  R"(,"services":[{"rank":-1,"name":"s"}])"));
  expect_own_times(timeline);
  const Retiming retiming(timeline);
  PerCall times = retiming.own();
  WhatIf(retiming).change_speed({0.5, 1}, times);
  const RetimedRun run = retiming.run(times);
  EXPECT_DOUBLE_EQ(run.calls[1][1].end_s, 1.25 + 0.125 + 0.5 + 0.125);
  EXPECT_DOUBLE_EQ(run.calls[0][1].end_s, 2 + 0.125 + 0.5 + 0.125);
}

// A wait in a monitor ends with the notification that woke it, wherever that moves.
TEST(Replay, AMonitorWaitsForItsNotifier) {
  const Timeline timeline = timeline_in(two_workers(
      R"({"p":0,"c":"compute","n":"step","e":1})"
      "\n"
      R"({"p":1,"c":"monitor","n":"wait","e":1.25,"w":1.25,"k":"monitor","a":[0,0,1,1.25]})"
      "\n{\"lines\":2}\n"));
  expect_own_times(timeline);
  const Retiming retiming(timeline);
  PerCall times = retiming.own();
  WhatIf(retiming).change_speed({0.5, 1}, times);
  EXPECT_DOUBLE_EQ(retiming.run(times).calls[1][0].end_s, 2.25);
}

TEST(Replay, GapsOnTheLongestPathAreReported) {
  const Timeline timeline =
      timeline_in(two_workers(R"({"p":0,"c":"compute","n":"step","b":1,"e":2})"
                              "\n"
                              R"({"p":0,"c":"compute","n":"step","b":3,"e":4})"
                              "\n{\"lines\":2}\n"));
  const Retiming retiming(timeline);
  EXPECT_DOUBLE_EQ(retiming.run(retiming.own()).gap_share, 0.5);
}

TEST(Replay, CallsThatWaitInACircleAreRefused) {
  const std::string receive =
      R"({{"p":{},"c":"communicate","n":"receive","e":1,"k":"receive","r":{},"o":{}}})"
      "\n";
  const std::string send =
      R"({{"p":{},"c":"communicate","n":"send","e":2,"k":"send","r":{},"o":{}}})"
      "\n";
  std::string calls;
  for (const std::string& call : {receive, send}) {
    for (const int p : {0, 1}) calls += fmt::format(fmt::runtime(call), p, p, 1 - p);
  }
  const Timeline timeline = timeline_in(two_workers(calls + "{\"lines\":4}\n"));
  EXPECT_THAT(error_of([&] {
                const Retiming retiming(timeline);
                retiming.run(retiming.own());
              }),
              HasSubstr("in a circle, among them receive of worker 0"));
}

const Settings kWithStragglers =
    "--workers 4 --max-samples 2560 --mega-batch 20 --straggler kind=uniform,min=0ms,max=5ms "
    "--straggler kind=constant,worker=2,factor=3";

TEST(Replay, AnUnmodifiedRecordGivesItsOwnTimes) {
  for (const char* algorithm : {"ssgd", "asgd", "dc-asgd", "ssp", "adpsgd", "rna", "eager-majority",
                                "elastic", "adaptive", "esync", "local-sgd", "sma", "easgd"}) {
    SCOPED_TRACE(algorithm);
    const Timeline timeline = recorded_timeline(tiny(algorithm, kWithStragglers));
    expect_own_times(timeline);
    const Retiming retiming(timeline);
    const RetimedRun run = retiming.run(retiming.own());
    EXPECT_NEAR(run.total.count(), timeline.elapsed.count(), 1e-12 * timeline.elapsed.count());
    EXPECT_LT(run.gap_share, kLargeGapShare);
    EXPECT_EQ(retiming.negative_gaps(), 0U);
  }
}

// Each segment has fresh processes, which go on in the lines of those before.
TEST(Replay, ARunOfSeveralSegmentsGivesItsOwnTimes) {
  for (const char* algorithm :
       {"ssgd", "asgd", "ssp", "adpsgd", "rna", "eager-solo", "adaptive", "esync", "sma"}) {
    SCOPED_TRACE(algorithm);
    const Settings cut = with(
        kWithStragglers, "--evaluate-every 640 --checkpoint-at 640,1280 --checkpoint-time 1ms");
    const Timeline timeline = recorded_timeline(tiny(algorithm, cut));
    expect_own_times(timeline);
    for (const TraceLine& line : timeline.processes) {
      const auto same = [&](const TraceLine& other) { return other.name == line.name; };
      EXPECT_EQ(std::ranges::count_if(timeline.processes, same), 1) << line.name;
    }
  }
  const Settings cut = with(tiny("asgd", "--cluster threads --devices cpu:1 --workers 2"),
                            "--max-samples 640 --evaluate-every 320 --checkpoint-at 320");
  expect_own_times(recorded_timeline(cut), 1e-6);
}

// The calls of a lost worker have no other side; its step times are of use all the same.
TEST(Replay, ARunThatHasLostWorkersIsRefused) {
  const Timeline timeline =
      recorded_timeline(tiny("ssgd", with(kWithStragglers,
                                          "--detect 1ms --straggler kind=fail,worker=1,at=10ms "
                                          "--straggler kind=return,worker=1,at=20ms")));
  EXPECT_EQ(timeline.lost_workers, 1U);
  EXPECT_THAT(error_of([&] { const Retiming retiming(timeline); }),
              HasSubstr("has lost workers 1 times"));
}

TEST(Replay, ARecordOfThreadsGivesItsOwnTimes) {
  for (const char* algorithm : {"ssgd", "asgd", "adpsgd", "elastic"}) {
    SCOPED_TRACE(algorithm);
    expect_own_times(recorded_timeline(with(tiny(algorithm, "--cluster threads --devices cpu:1"),
                                            "--workers 2 --max-samples 640 --mega-batch 10")),
                     1e-6);
  }
}

// Delays taken out of the record of a method with fixed decisions give the run without them.
TEST(Replay, WithoutInjectedDelaysItIsTheRunWithoutThem) {
  for (const char* algorithm : {"ssgd", "elastic", "local-sgd", "sma"}) {
    SCOPED_TRACE(algorithm);
    const Timeline timeline = recorded_timeline(tiny(algorithm, kWithStragglers));
    const Record plain =
        run_training(tiny(algorithm, "--workers 4 --max-samples 2560 --mega-batch 20"));
    const Retiming retiming(timeline);
    const WhatIf what_if(retiming);
    PerCall times = what_if.recorded();
    what_if.leave_out("injected", times);
    EXPECT_NEAR(retiming.run(times).total / plain.elapsed, 1, 0.05);
  }
}

TEST(Attribution, APlantedSlowWorkerIsBlamedFirst) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    RandomStream random(seed, Purpose::straggler, 0, 0);
    const int slow = static_cast<int>(8 * random.uniform());
    std::string text = "worker,step,seconds\n";
    for (int step = 0; step < 50; ++step) {
      for (int worker = 0; worker < 8; ++worker) {
        const double seconds = (worker == slow ? 1.3 : 1) * (0.9 + 0.2 * random.uniform());
        text += fmt::format("{},{},{}\n", worker, step, seconds);
      }
    }
    const Timeline timeline = timeline_in(text);
    const Retiming retiming(timeline);
    EXPECT_EQ(attribute(retiming, WhatIf(retiming)).workers.front().rank, slow) << seed;
  }
}

TEST(Attribution, ASlowWorkerOfARunIsBlamedFirst) {
  for (const char* algorithm : {"ssgd", "elastic", "local-sgd", "sma"}) {
    for (const int slow : {0, 3}) {
      SCOPED_TRACE(fmt::format("{}, worker {}", algorithm, slow));
      const Timeline timeline = recorded_timeline(
          tiny(algorithm, fmt::format("--workers 4 --max-samples 2560 --mega-batch 20 --straggler "
                                      "kind=constant,worker={},factor=2",
                                      slow)));
      const Retiming retiming(timeline);
      const Attribution attribution = attribute(retiming, WhatIf(retiming));
      EXPECT_EQ(attribution.workers.front().rank, slow);
      EXPECT_EQ(attribution.kinds.front().name, "step");
      EXPECT_GT(attribution.slowdown(), 1.1);
    }
  }
}

TEST(WhatIfs, ErrorsNameTheOption) {
  const Timeline timeline = timeline_in("worker,step,seconds\n0,0,1\n");
  const Retiming retiming(timeline);
  const WhatIf what_if(retiming);
  PerCall times = what_if.recorded();
  EXPECT_THAT(usage_error_of([&] { what_if.leave_out("stragler", times); }),
              HasSubstr("--without: found \"stragler\", expected injected, stragglers"));
  EXPECT_THAT(usage_error_of([&] { what_if.leave_out("worker=1", times); }),
              HasSubstr("--without worker: found"));
  EXPECT_THAT(usage_error_of([&] { what_if.leave_out("kind=stepp", times); }),
              HasSubstr("expected kind= and one of"));
  EXPECT_THAT(usage_error_of([&] { what_if.change_network("pcie3", times); }),
              HasSubstr("--network: found pcie3, expected a record with a network"));
}

}  // namespace
}  // namespace hetsgd::test
