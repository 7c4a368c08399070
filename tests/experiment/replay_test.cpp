// A replay of records of runs gives their own times. Timelines that can be checked by hand are in
// tests/judge/replay_test.py.

#include "core/error.hpp"
#include "experiment/replay/retiming.hpp"
#include "support/failure.hpp"
#include "support/recorded.hpp"

namespace hetsgd::test {
namespace {

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
    EXPECT_LT(run.gap_share, 0.05);
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

}  // namespace
}  // namespace hetsgd::test
