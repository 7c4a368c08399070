// A trace says where a worker's time went: its ranges agree with the time breakdown of the cluster.
#include "cluster/trace/trace.hpp"

#include "support/clicks.hpp"

namespace hetsgd::test {
namespace {

const Settings kTraced = tiny("ssgd", "--workers 2 --max-samples 1280 --evaluate-every 640");

struct Traced {
  explicit Traced(const Settings& more) {
    record = run_training(with(kTraced, more), {.trace = &trace});
  }
  Trace trace;
  Record record;
};

double total(const TraceLine& line, const std::string& category) {
  double sum = 0;
  for (const RecordedCall& range : line.ranges) {
    if (range.category == category) sum += (range.end - range.begin).count();
  }
  return sum;
}
std::size_t count(const TraceLine& line, const std::string& name) {
  return static_cast<std::size_t>(
      std::count_if(line.ranges.begin(), line.ranges.end(),
                    [&](const RecordedCall& range) { return range.name == name; }));
}

TEST(Traces, RangesAddUpToTheTimeBreakdown) {
  const Traced run("--algorithm ssgd --straggler kind=constant,worker=1,factor=3");
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
    for (const RecordedCall& range : line.ranges) {  // one after the other: nothing nests here
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
  const Traced server(Settings("--algorithm asgd"));
  std::set<std::string> names;
  for (const RecordedCall& range : server.trace.lines()[0]->ranges) names.insert(range.name);
  EXPECT_TRUE(std::any_of(names.begin(), names.end(),
                          [](const std::string& name) { return name.starts_with("service "); }));
  const Traced background_tasks(Settings("--algorithm adpsgd"));
  EXPECT_GT(background_tasks.trace.lines().size(), 2U);
}

// Tracing changes nothing in a run.
TEST(Traces, TheRunIsTheSame) {
  const Traced traced(Settings("--algorithm adaptive"));
  const Record plain = run_with(kTraced, "--algorithm adaptive");
  EXPECT_EQ(traced.record.elapsed, plain.elapsed);
  EXPECT_EQ(traced.record.curve.back().test_loss(), plain.curve.back().test_loss());
}

double waited(const Record& record, std::size_t worker, int whom) {
  double sum = 0;
  for (const WaitedFor& each : *record.workers[worker].waited_for) {
    if (each.rank == whom) sum += each.wait.count();
  }
  return sum;
}

// Three workers, the third with steps of 3t where the others' take t: in every iteration the two
// others wait for it, 2t. Vector operations take all the same time. So their whole wait is
// compute(2) - compute(0), and the breakdown has nothing else in `wait`.
TEST(WaitedFor, OneSlowWorkerIsWhomAllWaitFor) {
  const Traced run("--workers 3 --straggler kind=constant,worker=2,factor=3");
  const auto& workers = run.record.workers;
  const auto compute = [&](std::size_t r) { return workers[r].report.breakdown.compute.count(); };
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_NEAR(waited(run.record, r, 2), compute(2) - compute(r), 1e-9 * compute(2)) << r;
    EXPECT_NEAR(waited(run.record, r, 2), workers[r].report.breakdown.wait.count(), 1e-12) << r;
    EXPECT_EQ(waited(run.record, r, 1 - static_cast<int>(r)), 0) << r;
  }
  EXPECT_GT(compute(2), 2 * compute(0));
  EXPECT_TRUE(workers[2].waited_for->empty());
}

void expect_others_or_services(const Record& record) {
  for (const WorkerRecord& worker : record.workers) {
    for (const WaitedFor& each : *worker.waited_for) {
      EXPECT_NE(each.rank, worker.report.rank);
      EXPECT_EQ(each.rank < 0, !each.service.empty());
    }
  }
}

// A worker that waits for the companion of its own shard waits for a service.
TEST(WaitedFor, TheOwnCompanionIsAService) {
  for (const char* cluster : {"sim", "threads"}) {
    for (const char* algorithm : {"asgd", "adpsgd", "rna"}) {
      SCOPED_TRACE(fmt::format("{} on {}", algorithm, cluster));
      const Traced run(sharded_clicks(fmt::format(
          "--algorithm {} --cluster {} --devices cpu:1 --batch-size 32 --learning-rate 0.01",
          algorithm, cluster)));
      expect_others_or_services(run.record);
    }
    const Traced one(
        sharded_clicks(fmt::format("--algorithm asgd --cluster {} --devices cpu:1 --workers 1 "
                                   "--batch-size 32 --learning-rate 0.01",
                                   cluster)));
    expect_others_or_services(one.record);
    const TraceMatches matches = match(one.trace.lines());
    EXPECT_TRUE(std::ranges::any_of(
        matches.waits, [](const auto& wait) { return wait.second.service == "tables"; }));
  }
}

// Worker 0 waits at each model for worker 1, which is ten times as slow. It waits for the
// controller, which worker 1 has not answered, or in the reduction, to which worker 1 comes late;
// then its task reduces.
TEST(WaitedFor, WhatATaskReducesAndWaitsForIsItsWorkers) {
  for (const char* algorithm : {"rna", "eager-majority"}) {
    SCOPED_TRACE(algorithm);
    const Traced run(Settings(fmt::format(
        "--algorithm {} --network ethernet-1g --straggler kind=constant,worker=1,factor=10",
        algorithm)));
    const TimeBreakdown& fast = run.record.workers[0].report.breakdown;
    EXPECT_GT(fast.communicate, 0.02 * (fast.compute + fast.communicate + fast.wait));
    EXPECT_LE(fast.compute + fast.communicate + fast.wait, run.record.elapsed * (1 + 1e-9));
    double sum = 0;
    for (const WaitedFor& each : *run.record.workers[0].waited_for) sum += each.wait.count();
    EXPECT_GT(sum, 0.5 * fast.wait.count());
    EXPECT_LE(sum, fast.wait.count() * (1 + 1e-9));
    expect_others_or_services(run.record);
  }
}

// A server answers a push when it has applied it: all that asgd's workers wait for.
TEST(WaitedFor, OfAServiceItIsTheService) {
  const Traced run("--algorithm asgd --workers 3");
  for (const WorkerRecord& worker : run.record.workers) {
    ASSERT_EQ(worker.waited_for->size(), 1U);
    EXPECT_EQ(worker.waited_for->front().rank, -1);
    EXPECT_FALSE(worker.waited_for->front().service.empty());
    EXPECT_NEAR(worker.waited_for->front().wait.count(), worker.report.breakdown.wait.count(),
                1e-12);
  }
}

// A worker that waits only in blocking calls has its whole wait in the list, to the last bit of
// rounding. Other workers also wait for processes of their own, which is in no entry.
TEST(WaitedFor, EntriesAddUpToTheWaitOfBlockingAlgorithms) {
  const std::set<std::string> blocking = {"adaptive", "asgd",      "dc-asgd", "elastic",
                                          "esync",    "local-sgd", "ssgd",    "ssp"};
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    const std::string& name = algorithm.info.name;
    if (algorithm.info.max_workers < 4) continue;
    if (!algorithm.info.sharded_tables_only.empty()) continue;
    const Traced run(fmt::format(
        "--algorithm {} --workers 4 --mega-batch 5 --straggler kind=uniform,min=0ms,max=2ms",
        name));
    for (const WorkerRecord& worker : run.record.workers) {
      double sum = 0;
      for (const WaitedFor& each : *worker.waited_for) sum += each.wait.count();
      const double wait = worker.report.breakdown.wait.count();
      EXPECT_LE(sum, wait + 1e-9) << name;
      EXPECT_GE(sum, blocking.contains(name) ? wait - 1e-9 : 0) << name;
    }
  }
}

RecordedCall at(double begin, double end, CallLabel label, CallCell cell = {},
                const MoreOfCall& more = {}) {
  cell.begin = Seconds(begin);
  cell.end = Seconds(end);
  return {std::move(label), cell, more};
}

// Workers 0, 1, 2, 3 are split into {0, 2} and {3, 1} (keys turn the order round). Worker 2 comes
// to its part's call at 5, worker 1 to that of the other at 7. Then rank 0 of the second part,
// worker 3, sends to rank 1, worker 1, which has waited for 2 s.
TEST(WaitedFor, RanksOfAPartAreNamedAsWorkers) {
  std::vector<TraceLine> lines;
  for (int worker = 0; worker < 4; ++worker) {
    const bool odd = worker % 2 == 1;
    const int rank = odd ? (worker == 3 ? 0 : 1) : worker / 2;
    const std::string part = odd ? "/0:1" : "/0:0";
    TraceLine& line = lines.emplace_back(TraceLine{{.rank = worker, .name = "worker"}});
    line.ranges.push_back(at(0, 1, {.kind = CallKind::collective, .rank = worker}, {},
                             {.is_split = 1, .color = odd ? 1 : 0, .key = odd ? -worker : worker}));
    const double arrival = worker == 2 ? 5 : worker == 1 ? 7 : 2;
    line.ranges.push_back(
        at(arrival, 8, {.group = part, .kind = CallKind::collective, .rank = rank}));
    if (worker == 3) {
      line.ranges.push_back(
          at(10, 11, {.group = part, .kind = CallKind::send, .rank = 0}, {.peer = 1, .tag = 9}));
    }
    if (worker == 1) {
      line.ranges.push_back(at(8, 12, {.group = part, .kind = CallKind::receive, .rank = 1},
                               {.wait = Seconds(2), .peer = 0, .tag = 9}));
    }
  }
  std::vector<const TraceLine*> all;
  for (const TraceLine& line : lines) all.push_back(&line);
  const TraceMatches matches = match(all);
  ASSERT_EQ(matches.waits.size(), 3U);
  EXPECT_EQ(matches.waits.at({0, 1}).rank, 2);
  EXPECT_EQ(matches.waits.at({0, 1}).wait, Seconds(3));
  EXPECT_EQ(matches.waits.at({3, 1}).rank, 1);
  EXPECT_EQ(matches.waits.at({3, 1}).wait, Seconds(5));
  EXPECT_EQ(matches.waits.at({1, 2}).rank, 3);
  EXPECT_EQ(matches.waits.at({1, 2}).wait, Seconds(2));
  ASSERT_EQ(matches.messages.size(), 1U);
  EXPECT_EQ(matches.messages.front(), std::pair(RangeIndex{3, 2}, RangeIndex{1, 2}));
}

// Every send of a simulated run has its receive, or the run has ended before.
TEST(WaitedFor, MessagesFindTheirReceivers) {
  const Traced run("--algorithm adpsgd --workers 3");
  std::size_t sends = 0, receives = 0;
  const auto lines = run.trace.lines();
  for (const TraceLine* line : lines) {
    for (const RecordedCall& range : line->ranges) {
      sends += range.kind == CallKind::send;
      receives += range.kind == CallKind::receive;
    }
  }
  EXPECT_GT(receives, 0U);
  const TraceMatches matches = match(lines);
  EXPECT_EQ(matches.messages.size(), receives);
  EXPECT_LE(receives, sends);
  for (const auto& [sent, received] : matches.messages) {
    EXPECT_LE(lines[sent.line]->ranges[sent.range].begin,
              lines[received.line]->ranges[received.range].end);
  }
}

TEST(Traces, RangesKnowIterationBatchAndBytes) {
  const Traced run(Settings("--straggler kind=constant,worker=1,factor=3"));
  for (const TraceLine* line : run.trace.lines()) {
    std::uint64_t steps = 0, samples = 0;
    double delay = 0;
    for (const RecordedCall& range : line->ranges) {
      if (range.name == "step") {
        EXPECT_EQ(range.steps, ++steps);
        samples += range.samples;
      }
      delay += range.delay.count();
      if (range.name == "all_reduce") {
        EXPECT_EQ(range.bytes, 4 * run.record.parameters);
      }
    }
    const WorkerRecord& worker = run.record.workers[static_cast<std::size_t>(line->rank)];
    EXPECT_EQ(samples, worker.samples);
    EXPECT_NEAR(delay, worker.report.breakdown.delay_achieved.count(), 1e-9);
    EXPECT_EQ(delay > 0, line->rank == 1);
  }
}

TEST(Traces, RealTimeToo) {
  const Traced run("--algorithm ssgd --cluster threads --devices cpu:1");
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
