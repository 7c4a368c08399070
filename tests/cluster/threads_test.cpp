// Promises of the threads cluster alone: devices and cores, precise delays, and who may call.

#include "cluster/conformance.hpp"
#include "cluster/devices.hpp"
#include "support/failure.hpp"

namespace hetsgd::threads {
namespace {

using conformance::failure_of;
using conformance::Gather;
using conformance::options_for;

// --- devices -----------------------------------------------------------------------------------

std::vector<std::string> texts(const std::vector<DeviceSpec>& devices) {
  std::vector<std::string> all;
  for (const auto& device : devices) all.push_back(device.text);
  return all;
}

TEST(ThreadsDevices, ListsRepeatTheirLastEntry) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(parse_devices({}, 2, 4)), (Texts{"cpu:1", "cpu:1"}));
  EXPECT_EQ(texts(parse_devices({"cpu"}, 1, 4)), (Texts{"cpu:1"}));
  EXPECT_EQ(texts(parse_devices({"cpu:2, cpu:1"}, 4, 4)),
            (Texts{"cpu:2", "cpu:1", "cpu:1", "cpu:1"}));
  EXPECT_EQ(texts(parse_devices({"cpu:2, cpu:1*2", "cpu*1"}, 4, 4)),
            (Texts{"cpu:2", "cpu:1", "cpu:1", "cpu:1"}));
  EXPECT_EQ(texts(parse_devices({"cpu:1", "cpu:4"}, 3, 4)), (Texts{"cpu:1", "cpu:4", "cpu:4"}));
}

TEST(ThreadsDevices, BadEntriesSayWhatWasExpected) {
  const auto parse = [](std::vector<std::string> entries, int workers) {
    return test::failure_of([&] { parse_devices(entries, workers, 2); });
  };
  const test::Failure kind = parse({"gpu:0"}, 1);
  EXPECT_EQ(kind.code, ExitCode::usage);
  EXPECT_EQ(kind.message,
            "--devices: found \"gpu:0\", expected cpu:N (N cores), cuda:N or cuda:all");
  EXPECT_THAT(parse({"cpi:1"}, 1).hint, HasSubstr("cpu"));
  for (const char* bad :
       {"cpu:0", "cpu:x", "cpu:1:2", "cpu:1,,cpu:1", "cpu:1*0", "cuda:all*2", "cuda:x", "cuda"}) {
    EXPECT_EQ(parse({bad}, 4).code, ExitCode::usage) << bad;
  }
  EXPECT_EQ(parse({"cpu:1*x"}, 1).message,
            "--devices DEVICE*N: found \"x\", expected a whole number from 1 to 65536");
  const test::Failure many = parse({"cpu:1,cpu:1,cpu:1"}, 2);
  EXPECT_EQ(many.code, ExitCode::usage);
  EXPECT_EQ(many.message,
            "--devices: found 3 devices for 2 workers, expected at most one for each");
  EXPECT_EQ(many.hint, "set --workers 3");
  const test::Failure cuda = parse({"cuda:1000"}, 1);
  EXPECT_EQ(cuda.code, ExitCode::device);
  EXPECT_THAT(cuda.message, HasSubstr("--devices: cuda:1000: "));
  EXPECT_FALSE(cuda.hint.empty());
  const test::Failure cores = parse({"cpu:3"}, 1);
  EXPECT_EQ(cores.code, ExitCode::device);
  EXPECT_EQ(cores.message,
            "--devices: found cpu:3, expected at most the 2 cores that this process may use");
}

TEST(ThreadsDevices, CoresAreOwnOnesOrNone) {
  using Cores = std::vector<std::vector<int>>;
  const CoreOrder order{.cores = {4, 1, 5, 7}, .physical = {4, 1, 5, 7}};
  EXPECT_EQ(assign_cores(parse_devices({"cpu:2,cpu:1"}, 3, 8), order), (Cores{{1, 4}, {5}, {7}}));
  EXPECT_EQ(assign_cores(parse_devices({"cpu:2"}, 3, 8), order), (Cores{{}, {}, {}}));
}

TEST(ThreadsDevices, WorkersShareNoPhysicalCoreWhileOthersAreFree) {
  using Cores = std::vector<std::vector<int>>;
  // Three physical cores; core c has the hardware threads c and c + 3.
  const CoreOrder order =
      CoreMap("pack:1 core:3 pu:2(indexes=0,3,1,4,2,5)").in_order({0, 1, 2, 3, 4, 5});
  const auto assigned = [&](const char* devices, int workers) {
    return assign_cores(parse_devices({devices}, workers, 6), order);
  };
  EXPECT_EQ(assigned("cpu:1", 3), (Cores{{0}, {1}, {2}}));
  EXPECT_EQ(assigned("cpu:2,cpu:1", 2), (Cores{{0, 1}, {2}}));
  // More than three: those of several cores get their own siblings, and the others spread.
  EXPECT_EQ(assigned("cpu:2", 3), (Cores{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(assigned("cpu:3", 2), (Cores{{0, 1, 3}, {2, 4, 5}}));
  EXPECT_EQ(assigned("cpu:1", 4), (Cores{{0}, {1}, {2}, {3}}));
}

TEST(ThreadsDevices, ReportSaysWhereWorkersRan) {
  const auto cores = available_cores();
  const int first = machine_cores().in_order(cores).cores.front();
  const auto one = make_cluster("threads", options_for(1))->run([&](Endpoint&) {
    EXPECT_EQ(available_cores(), std::vector<int>{first});
  });
  EXPECT_EQ(one.workers[0].device, fmt::format("cpu:1@core{}", first));
  EXPECT_EQ(make_cluster("threads", options_for(1))->planned(0).cores, std::vector<int>{first});
  const auto many = make_cluster("threads", options_for(static_cast<int>(cores.size()) + 1))
                        ->run([&](Endpoint& endpoint) {
                          EXPECT_EQ(available_cores(), cores);
                          EXPECT_EQ(endpoint.device().name(), "cpu:1");
                        });
  EXPECT_EQ(many.workers[0].device, "cpu:1@unpinned");
}

// Threads that a pinned worker starts may use all cores.
TEST(ThreadsDevices, BackgroundTasksAreNotPinned) {
  const auto cores = available_cores();
  make_cluster("threads", options_for(1))->run([&](Endpoint& endpoint) {
    endpoint.background_task("free", [&](Endpoint&) { EXPECT_EQ(available_cores(), cores); });
  });
}

TEST(ThreadsOptions, SpeedsAboveOneAreRefused) {
  auto options = options_for(2);
  options.speed = {1, 1.5};
  EXPECT_EQ(test::failure_of([&] { make_cluster("threads", options); }).hint,
            "divide all speeds by the largest");
  options.speed = {0};
  EXPECT_EQ(test::failure_of([&] { make_cluster("threads", options); }).code, ExitCode::usage);
}

// --- delays ------------------------------------------------------------------------------------

void busy(Seconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Runs `calls` computations of `busy_for` each; the longest call is left in `longest[rank]`.
ClusterReport run_calls(const ClusterOptions& options, int calls, Seconds busy_for,
                        std::vector<Seconds>& longest) {
  longest.assign(static_cast<std::size_t>(options.workers), Seconds(0));
  return make_cluster("threads", options)->run([&](Endpoint& endpoint) {
    Seconds& mine = longest[static_cast<std::size_t>(endpoint.rank())];
    for (int i = 0; i < calls; ++i) {
      const Seconds start = endpoint.now();
      endpoint.compute({}, i % 2 ? ComputeKind::step : ComputeKind::vector,
                       [&] { busy(busy_for); });
      mine = std::max(mine, endpoint.now() - start);
    }
  });
}

// A delay that takes too long is made up for by the next ones. Let e be the excess achieved -
// requested, and r a requested delay. If e >= r the delay is left out and e falls by r. Otherwise
// the thread sleeps for r - e and wakes late by l >= 0; then e = l, which is less than that call
// took. So 0 <= e <= the longest call, on a host with any load. Without this rule, e would be the
// sum of all l.
void expect_excess_of_one_call(const TimeBreakdown& breakdown, Seconds longest) {
  const double rounding = 1e-9 * breakdown.delay_requested.count();
  const Seconds excess = breakdown.delay_achieved - breakdown.delay_requested;
  EXPECT_GE(excess.count(), -rounding);
  EXPECT_LE(excess.count(), longest.count() + rounding);
}

// A speed of 0.5 doubles the time of a computation.
TEST(ThreadsDelays, SpeedIsAchievedUpToOneCall) {
  auto options = options_for(2);
  options.speed = {1, 0.5};
  std::vector<Seconds> longest;
  const auto report = run_calls(options, 500, 200us, longest);
  EXPECT_EQ(report.workers[0].breakdown.delay_requested, Seconds(0));
  const TimeBreakdown& slow = report.workers[1].breakdown;
  EXPECT_GE(slow.delay_requested, 100ms);
  EXPECT_GE(slow.compute, slow.delay_requested + slow.delay_achieved);
  expect_excess_of_one_call(slow, longest[1]);
}

TEST(ThreadsDelays, ScenarioIsAchievedUpToOneCall) {
  for (const auto& [kind, steps] : {std::pair("kind=uniform,min=0.1ms,max=0.3ms", 1000),
                                    std::pair("kind=uniform,min=2ms,max=6ms", 60)}) {
    auto options = options_for(2);
    options.scenario = std::make_shared<const Scenario>(std::vector<std::string>{kind}, 2, 3);
    std::vector<Seconds> longest;
    const auto report =
        run_calls(options, 2 * steps, 20us, longest);  // every second call is a step
    for (std::size_t r = 0; r < 2; ++r) {
      Seconds expected(0);  // the extra delay does not depend on when it comes
      for (int i = 0; i < steps; ++i) {
        expected += options.scenario->stretched(static_cast<int>(r), static_cast<std::uint64_t>(i),
                                                Seconds(0), Seconds(0));
      }
      const TimeBreakdown& breakdown = report.workers[r].breakdown;
      EXPECT_NEAR(breakdown.delay_requested / expected, 1, 1e-6);
      expect_excess_of_one_call(breakdown, longest[r]);
    }
  }
}

// --- misuse --------------------------------------------------------------------------------------

TEST(ThreadsMisuse, AForeignThread) {
  EXPECT_THAT(failure_of<CheckFailure>("threads", 1,
                                       [](Endpoint& endpoint) {
                                         std::exception_ptr error;
                                         std::thread([&] {
                                           try {
                                             endpoint.comm().barrier();
                                           } catch (...) {
                                             error = std::current_exception();
                                           }
                                         }).join();
                                         std::rethrow_exception(error);
                                       }),
              HasSubstr("no process of the run"));
}

TEST(ThreadsMisuse, IdleServicesAndEndedWorkersAreInADeadlockReport) {
  const auto text = failure_of<Error>("threads", 2, [](Endpoint& endpoint) {
    if (endpoint.rank() == 0) serve<Gather>(endpoint, "scheduler", 2).call({});
  });
  EXPECT_THAT(text, HasSubstr("worker 0: waits for service \"scheduler\""));
  EXPECT_THAT(text, HasSubstr("worker 1: has ended"));
  EXPECT_THAT(text, HasSubstr("service \"scheduler\": idle"));
}

}  // namespace
}  // namespace hetsgd::threads
