// What only the threads cluster promises: devices and cores, precise delays, a clock without
// fences, honest bytes, and order among threads under stress.
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "cluster/conformance.hpp"
#include "cluster/random_calls.hpp"
#include "cluster/threads/devices.hpp"
#include "core/random.hpp"

namespace hetsgd::threads {
namespace {

using conformance::Answer;
using conformance::Ask;
using conformance::Channel;
using conformance::failure_of;
using conformance::Gather;
using conformance::options_for;
using testing::HasSubstr;

// --- devices -----------------------------------------------------------------------------------

template <class Fn>
Error error_of(Fn fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ExitCode::ok, "");
}

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
  EXPECT_EQ(texts(parse_devices({"cpu:1", "cpu:4"}, 3, 4)), (Texts{"cpu:1", "cpu:4", "cpu:4"}));
}

TEST(ThreadsDevices, BadEntriesSayWhatWasExpected) {
  const auto parse = [](std::vector<std::string> entries, int workers) {
    return error_of([&] { parse_devices(entries, workers, 2); });
  };
  const Error kind = parse({"gpu:0"}, 1);
  EXPECT_EQ(kind.code(), ExitCode::usage);
  EXPECT_STREQ(kind.what(),
               "--devices: found \"gpu:0\", expected cpu:N (N cores), cuda:N or cuda:all");
  EXPECT_THAT(parse({"cpi:1"}, 1).hint(), HasSubstr("cpu"));
  EXPECT_EQ(parse({"cpu:0"}, 1).code(), ExitCode::usage);
  EXPECT_EQ(parse({"cpu:x"}, 1).code(), ExitCode::usage);
  EXPECT_EQ(parse({"cpu:1:2"}, 1).code(), ExitCode::usage);
  EXPECT_EQ(parse({"cpu:1,,cpu:1"}, 4).code(), ExitCode::usage);
  const Error many = parse({"cpu:1,cpu:1,cpu:1"}, 2);
  EXPECT_EQ(many.code(), ExitCode::usage);
  EXPECT_STREQ(many.what(), "--devices: found 3 devices for 2 workers");
  EXPECT_EQ(many.hint(), "set --workers 3");
  EXPECT_EQ(parse({"cuda:x"}, 1).code(), ExitCode::usage);
  EXPECT_EQ(parse({"cuda"}, 1).code(), ExitCode::usage);
  const Error cuda = parse({"cuda:1000"}, 1);
  EXPECT_EQ(cuda.code(), ExitCode::device);
  EXPECT_THAT(cuda.what(), HasSubstr("--devices: cuda:1000: "));
  EXPECT_FALSE(cuda.hint().empty());
  const Error cores = parse({"cpu:3"}, 1);
  EXPECT_EQ(cores.code(), ExitCode::device);
  EXPECT_STREQ(cores.what(), "--devices: cpu:3 asks for 3 cores, this process may use 2");
}

TEST(ThreadsDevices, CoresAreOwnOnesOrNone) {
  using Cores = std::vector<std::vector<int>>;
  EXPECT_EQ(assign_cores(parse_devices({"cpu:2,cpu:1"}, 3, 8), {1, 4, 5, 7}),
            (Cores{{1, 4}, {5}, {7}}));
  EXPECT_EQ(assign_cores(parse_devices({"cpu:2"}, 3, 8), {1, 4, 5, 7}), (Cores{{}, {}, {}}));
}

TEST(ThreadsDevices, ReportSaysWhereWorkersRan) {
  const auto cores = available_cores();
  const auto one = make_cluster("threads", options_for(1))->run([&](Node&) {
    EXPECT_EQ(available_cores(), std::vector<int>{cores.front()});
  });
  EXPECT_EQ(one.workers[0].device, fmt::format("cpu:1@core{}", cores.front()));
  const auto many = make_cluster("threads", options_for(static_cast<int>(cores.size()) + 1))
                        ->run([&](Node& node) {
                          EXPECT_EQ(available_cores(), cores);
                          EXPECT_EQ(node.device().name(), "cpu:1");
                        });
  EXPECT_EQ(many.workers[0].device, "cpu:1@unpinned");
}

// Threads that a pinned worker starts may use all cores.
TEST(ThreadsDevices, CompanionsAreNotPinned) {
  const auto cores = available_cores();
  make_cluster("threads", options_for(1))->run([&](Node& node) {
    node.companion("free", [&](Node&) { EXPECT_EQ(available_cores(), cores); });
  });
}

TEST(ThreadsOptions, SpeedsAboveOneAreRefused) {
  auto options = options_for(2);
  options.speed = {1, 1.5};
  EXPECT_EQ(error_of([&] { make_cluster("threads", options); }).hint(),
            "divide all speeds by the largest");
  options.speed = {0};
  EXPECT_EQ(error_of([&] { make_cluster("threads", options); }).code(), ExitCode::usage);
}

// --- delays ------------------------------------------------------------------------------------

void busy(Seconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// The last delay of a run has no successor that could make up for it, so on a loaded host one time
// slice of another program (4 ms) stays in the sum. Of five runs one must come through undisturbed.
template <class Run>
void expect_within_two_percent(Run run) {
  double worst = 1;
  for (int attempt = 0; attempt < 5 && worst > 0.02; ++attempt) worst = run();
  EXPECT_LE(worst, 0.02);
}

// Requested delays of 0.2 ms are made within 2 % in sum, and a speed of 0.5 doubles the time of a
// computation.
TEST(ThreadsDelays, SpeedIsAchievedWithinTwoPercent) {
  auto options = options_for(2);
  options.speed = {1, 0.5};
  expect_within_two_percent([&] {
    const auto report = make_cluster("threads", options)->run([](Node& node) {
      for (int i = 0; i < 500; ++i) {
        node.compute({}, i % 2 ? ComputeKind::step : ComputeKind::vector, [] { busy(200us); });
      }
    });
    EXPECT_EQ(report.workers[0].ledger.delay_requested, Seconds(0));
    const Ledger& slow = report.workers[1].ledger;
    EXPECT_GE(slow.delay_requested, 100ms);
    EXPECT_GE(slow.compute, slow.delay_requested + slow.delay_achieved * 0.98);
    return std::abs(slow.delay_achieved / slow.delay_requested - 1);
  });
}

TEST(ThreadsDelays, ScenarioIsAchievedWithinTwoPercent) {
  for (const auto& [kind, iterations] : {std::pair("kind=uniform,min=0.1ms,max=0.3ms", 1000),
                                         std::pair("kind=uniform,min=2ms,max=6ms", 60)}) {
    auto options = options_for(2);
    options.scenario = std::make_shared<const Scenario>(std::vector<std::string>{kind}, 2, 3);
    std::vector<Seconds> expected(2,
                                  Seconds(0));  // the extra delay does not depend on when it comes
    for (int rank = 0; rank < 2; ++rank) {
      for (int i = 0; i < iterations; ++i) {
        expected[static_cast<std::size_t>(rank)] += options.scenario->stretched(
            rank, static_cast<std::uint64_t>(i), Seconds(0), Seconds(0));
      }
    }
    expect_within_two_percent([&, n = iterations] {
      const auto report = make_cluster("threads", options)->run([n](Node& node) {
        for (int i = 0; i < n; ++i) node.compute({}, ComputeKind::step, [] { busy(20us); });
      });
      double worst = 0;
      for (std::size_t r = 0; r < 2; ++r) {
        const Ledger& ledger = report.workers[r].ledger;
        EXPECT_NEAR(ledger.delay_requested / expected[r], 1, 1e-6);
        worst = std::max(worst, std::abs(ledger.delay_achieved / expected[r] - 1));
      }
      return worst;
    });
  }
}

TEST(ThreadsDelays, SleepGoesOnAfterAFence) {
  const auto report = make_cluster("threads", options_for(2))->run([](Node& node) {
    node.comm().barrier();
    if (node.rank() == 0) {
      const Seconds before = node.now();
      node.sleep(20ms);
      EXPECT_GE(node.now() - before, 20ms);
    } else {
      node.sleep(5ms);
      node.fence([] { std::this_thread::sleep_for(400ms); });
    }
  });
  EXPECT_LT(report.elapsed, 300ms);
  EXPECT_GE(report.fenced, 400ms);
}

// --- clock and ledger ----------------------------------------------------------------------------

TEST(ThreadsLedger, BytesAreThoseOfARing) {
  constexpr std::size_t kNumbers = 64000;  // 256,000 bytes: two slices of 128,000
  const auto report = make_cluster("threads", options_for(2))->run([](Node& node) {
    std::vector<float> x(kNumbers), all(2 * kNumbers);
    node.comm().all_reduce(std::span(x), ReduceOp::sum, Traffic::gradients);
    node.comm().broadcast(std::span(x), 0, Traffic::parameters);
    node.comm().all_gather(std::span<const float>(x), std::span(all));
    node.comm().reduce_scatter(std::span(x));
    if (node.rank() == 0) node.comm().send(1, 0, std::span<const float>(x), Traffic::parameters);
    if (node.rank() == 1) node.comm().receive(0, 0, std::span(x));
  });
  using Bytes = std::array<std::uint64_t, 3>;  // parameters, gradients, control
  EXPECT_EQ(report.workers[0].ledger.bytes_sent, (Bytes{512000, 256000, 384000}));
  EXPECT_EQ(report.workers[0].ledger.bytes_received, (Bytes{0, 256000, 384000}));
  EXPECT_EQ(report.workers[1].ledger.bytes_sent, (Bytes{0, 256000, 384000}));
  EXPECT_EQ(report.workers[1].ledger.bytes_received, (Bytes{512000, 256000, 384000}));
}

TEST(ThreadsLedger, WaitIsTheTimeForOthersWithoutFences) {
  const auto report = make_cluster("threads", options_for(2))->run([](Node& node) {
    node.comm().barrier();
    if (node.rank() == 0) {
      node.compute({}, ComputeKind::step, [] { std::this_thread::sleep_for(30ms); });
      node.fence([] { std::this_thread::sleep_for(400ms); });
    }
    node.comm().barrier();
  });
  EXPECT_GE(report.workers[0].ledger.compute, 30ms);
  EXPECT_GE(report.workers[1].ledger.wait, 25ms);
  EXPECT_LT(report.workers[1].ledger.wait, 300ms);
  EXPECT_LT(report.elapsed, 300ms);
  EXPECT_GE(report.fenced, 400ms);
}

TEST(ThreadsClock, NeverRunsBackwards) {
  make_cluster("threads", options_for(3))->run([](Node& node) {
    Seconds last = node.now();
    for (int i = 0; i < 300; ++i) {
      if (i % 10 == node.rank()) node.fence([] { std::this_thread::sleep_for(20us); });
      node.compute({}, ComputeKind::vector, [] {});
      EXPECT_GE(node.now(), last);
      last = node.now();
    }
  });
}

// --- misuse --------------------------------------------------------------------------------------

TEST(ThreadsMisuse, VocabularyInsideOfAFence) {
  EXPECT_THAT(failure_of<CheckFailure>("threads", 2,
                                       [](Node& node) {
                                         if (node.rank() == 0)
                                           node.fence([&] { node.comm().barrier(); });
                                         node.comm().barrier();
                                       }),
              HasSubstr("worker 0 uses the cluster inside of a fence"));
}

TEST(ThreadsMisuse, AForeignThread) {
  EXPECT_THAT(failure_of<CheckFailure>("threads", 1,
                                       [](Node& node) {
                                         std::exception_ptr error;
                                         std::thread([&] {
                                           try {
                                             node.comm().barrier();
                                           } catch (...) {
                                             error = std::current_exception();
                                           }
                                         }).join();
                                         std::rethrow_exception(error);
                                       }),
              HasSubstr("no process of the run"));
}

TEST(ThreadsMisuse, IdleServicesAndEndedWorkersAreInADeadlockReport) {
  const auto text = failure_of<Error>("threads", 2, [](Node& node) {
    if (node.rank() == 0) serve<Gather>(node, "scheduler", 2).call({});
  });
  EXPECT_THAT(text, HasSubstr("worker 0: waits for service \"scheduler\""));
  EXPECT_THAT(text, HasSubstr("worker 1: has ended"));
  EXPECT_THAT(text, HasSubstr("service \"scheduler\": idle"));
}

// --- order under stress

void random_run(std::uint64_t seed) {
  RandomStream shape(seed, Purpose::test, 0);
  const int p = 1 + static_cast<int>(shape.below(5));
  make_cluster("threads", options_for(p))->run([seed](Node& node) {
    conformance::call_at_random(node, seed, 40);
  });
}

TEST(ThreadsStress, RandomRunsEnd) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) random_run(seed);
}

// Failures at random places end the run with the first error, and nobody touches memory of who has
// gone.
TEST(ThreadsStress, RandomFailuresEnd) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::atomic<int> steps = 0;
    const int last = static_cast<int>(seed % 37);
    EXPECT_EQ(failure_of<Error>("threads", 4,
                                [&](Node& node) {
                                  auto gather = serve<Gather>(node, "gather", 2);
                                  std::vector<float> x(20000, 1.0F), y(x.size());
                                  const int next = (node.rank() + 1) % node.size();
                                  const int previous = (node.rank() + 3) % node.size();
                                  for (int i = 0;; ++i) {
                                    if (++steps > last) throw runtime_failure("enough");
                                    node.comm().all_reduce(std::span(x), ReduceOp::max);
                                    gather.call({i}, x);
                                    node.comm().send(next, i, std::span<const float>(x));
                                    node.comm().receive(previous, i, std::span(y));
                                    node.comm().broadcast(std::span(y), i % 4);
                                  }
                                }),
              "enough");
  }
}

}  // namespace
}  // namespace hetsgd::threads
