// A trace says where a worker's time went: its ranges against the time breakdown that the cluster keeps.
#include "training/trace.hpp"

#include <gtest/gtest.h>

#include <set>

#include "support/run.hpp"

namespace hetsgd::test {
namespace {

const Settings kTraced =
    tiny("ssgd", {{"workers", "2"}, {"max_samples", "1280"}, {"evaluate_every", "640"}});

struct Traced {
  explicit Traced(const Settings& more) {
    TrainHooks hooks;
    hooks.trace = &trace;
    record = run_training(with(kTraced, more), hooks);
  }
  Trace trace;
  Record record;
};

double total(const TraceLine& line, const std::string& category) {
  double sum = 0;
  for (const TraceRange& range : line.ranges) {
    if (range.category == category) sum += (range.end - range.begin).count();
  }
  return sum;
}
std::size_t count(const TraceLine& line, const std::string& name) {
  return static_cast<std::size_t>(
      std::count_if(line.ranges.begin(), line.ranges.end(),
                    [&](const TraceRange& range) { return range.name == name; }));
}

TEST(Traces, RangesAddUpToTheTimeBreakdown) {
  const Traced run({{"algorithm", "ssgd"}, {"straggler", "kind=constant,worker=1,factor=3"}});
  const auto lines = run.trace.lines();
  ASSERT_EQ(lines.size(), 2U);
  std::size_t evaluations = 0;
  for (std::size_t r = 0; r < lines.size(); ++r) {
    const TraceLine& line = *lines[r];
    const TimeBreakdown& breakdown = run.record.workers[r].report.breakdown;
    EXPECT_EQ(line.name, "worker " + std::to_string(r));
    EXPECT_EQ(count(line, "step"), breakdown.steps);
    EXPECT_GT(count(line, "all_reduce"), 0U);
    EXPECT_NEAR(total(line, "compute"), breakdown.compute.count(), 1e-9);
    EXPECT_NEAR(total(line, "communicate"), (breakdown.communicate + breakdown.wait).count(), 1e-9);
    EXPECT_EQ(total(line, "off_clock"), 0);
    Seconds before{0};
    for (const TraceRange& range : line.ranges) {  // one after the other: nothing nests here
      if (range.category == std::string("off_clock")) continue;
      EXPECT_GE(range.begin, before);
      EXPECT_GE(range.end, range.begin);
      before = range.end;
    }
    EXPECT_LE(before, run.record.elapsed + Seconds(1e-9));
    evaluations += count(line, "evaluation");
  }
  EXPECT_EQ(evaluations, run.record.curve.size() - 1);  // the initial model is measured before
  EXPECT_GT(total(*lines[1], "compute"), 2 * total(*lines[0], "compute"));
}

TEST(Traces, ServicesAndBackgroundTasksAppear) {
  const Traced server(Settings{{"algorithm", "asgd"}});
  std::set<std::string> names;
  for (const TraceRange& range : server.trace.lines()[0]->ranges) names.insert(range.name);
  EXPECT_TRUE(std::any_of(names.begin(), names.end(),
                          [](const std::string& name) { return name.starts_with("service "); }));
  const Traced background_tasks(Settings{{"algorithm", "adpsgd"}});
  EXPECT_GT(background_tasks.trace.lines().size(), 2U);
}

// Who listens changes nothing.
TEST(Traces, TheRunIsTheSame) {
  const Traced traced(Settings{{"algorithm", "adaptive"}});
  const Record plain = run_training(with(kTraced, {{"algorithm", "adaptive"}}));
  EXPECT_EQ(traced.record.elapsed, plain.elapsed);
  EXPECT_EQ(traced.record.curve.back().test_loss(), plain.curve.back().test_loss());
}

TEST(Traces, RealTimeToo) {
  const Traced run({{"algorithm", "ssgd"}, {"cluster", "threads"}, {"devices", "cpu:1"}});
  for (std::size_t r = 0; r < 2; ++r) {
    const TraceLine& line = *run.trace.lines()[r];
    const TimeBreakdown& breakdown = run.record.workers[r].report.breakdown;
    EXPECT_EQ(count(line, "step"), breakdown.steps);
    EXPECT_GE(total(line, "compute") + 1e-3, breakdown.compute.count());
    EXPECT_LE(total(line, "compute"), run.record.elapsed.count());
  }
}

}  // namespace
}  // namespace hetsgd::test
