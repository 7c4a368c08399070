// Monitors, pauses, failures and numbers of processes in virtual time.
#include <mutex>

#include "cluster/sim_support.hpp"
#include "support/effort.hpp"

namespace hetsgd::sim {
namespace {

using conformance::Channel;

// --- monitors ------------------------------------------------------------------------------------

TEST(SimMonitor, LockIsHandedOnInTheOrderOfCalls) {
  std::shared_ptr<Monitor> monitor;
  std::vector<int> order;
  const auto report = run(slow_machine(3), [&](Endpoint& endpoint) {
    if (!monitor) monitor = endpoint.make_monitor();
    endpoint.sleep(Seconds(3 - endpoint.rank()));
    const std::lock_guard lock(*monitor);
    order.push_back(endpoint.rank());
    endpoint.sleep(10s);
  });
  EXPECT_EQ(order, (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(report.elapsed.count(), 31.0);
  EXPECT_EQ(breakdown(report, 0).wait.count(), 31.0);
}

TEST(SimMonitor, WaitEndsWhenReadyAndNotBefore) {
  run(slow_machine(1), [](Endpoint& endpoint) {
    auto channel = std::make_shared<Channel>(endpoint);
    endpoint.background_task("counts", [channel](Endpoint& self) {
      for (int i = 0; i < 5; ++i) {
        self.sleep(1s);
        const std::lock_guard lock(*channel->monitor);
        channel->items.push_back(i);
        channel->monitor->notify_all();
      }
    });
    const std::lock_guard lock(*channel->monitor);
    channel->monitor->wait([&] { return channel->items.size() == 3; }, "three");
    EXPECT_EQ(now(endpoint), 3.0);
    EXPECT_EQ(endpoint.time_breakdown().wait.count(), 3.0);
  });
}

// The main process computes 2 s and waits for its task until 12. The task computes from 0 to 4,
// sends from 4 to 6.25 (128 bytes, 1/4 s), and sleeps to the end.
//
//   main   |= compute =|---- waits -----------------------------|
//   task   |===== compute =====|== sends ==|------ sleeps ------|
//   all    |  compute  0 .. 4  | 4 .. 6.25 |  wait  6.25 .. 12   |
TEST(SimMonitor, WorkOfABackgroundTaskIsInItsWorkersAccount) {
  const auto report = run(slow_machine(2), [](Endpoint& endpoint) {
    std::vector<std::byte> data(128);
    if (endpoint.rank() == 1) {
      endpoint.comm().receive(0, 7, std::span(data));
      return;
    }
    auto channel = std::make_shared<Channel>(endpoint);
    endpoint.background_task("works", [channel](Endpoint& self) {
      self.compute(work_of(4), ComputeKind::part, nothing);
      self.comm().send(1, 7, std::vector<std::byte>(128));
      self.sleep(Seconds(12 - now(self)));
      {
        const std::lock_guard lock(*channel->monitor);
        channel->closed = true;
        channel->monitor->notify_all();
      }
      self.compute(work_of(50), ComputeKind::part, nothing);  // after its worker's end
    });
    endpoint.compute(work_of(2), ComputeKind::part, nothing);
    const std::lock_guard lock(*channel->monitor);
    channel->monitor->wait([&] { return channel->closed; }, "the task");
    EXPECT_EQ(endpoint.time_breakdown().compute.count(), 2);
    EXPECT_EQ(endpoint.account().compute.count(), 4);
  });
  const TimeBreakdown& account = breakdown(report, 0);
  EXPECT_EQ(account.compute.count(), 4);
  EXPECT_GT(account.communicate.count(), 1.9);
  EXPECT_LT(account.communicate.count(), 2.6);
  EXPECT_EQ((account.compute + account.communicate + account.wait).count(), 12);
  EXPECT_EQ(report.elapsed.count(), 62);  // background tasks count for the end of the run
}

TEST(SimMonitor, MisuseIsACheckFailure) {
  failure_of<CheckFailure>(slow_machine(1),
                           [](Endpoint& endpoint) { endpoint.make_monitor()->unlock(); });
  failure_of<CheckFailure>(slow_machine(1), [](Endpoint& endpoint) {
    const auto monitor = endpoint.make_monitor();
    monitor->lock();
    monitor->lock();
  });
  failure_of<CheckFailure>(slow_machine(1), [](Endpoint& endpoint) {
    endpoint.make_monitor()->wait([] { return true; }, "without the lock");
  });
}

// --- pauses --------------------------------------------------------------------------------------

// A computation that has begun is done when a pause looks, so what a pause sees does not depend on
// the host.
TEST(SimPause, SeesFinishedComputations) {
  for (const int threads : {1, 3}) {
    ClusterOptions options = slow_machine(3);
    options.host_threads = threads;
    int value = 0;
    run(options, [&](Endpoint& endpoint) {
      if (endpoint.rank() > 0) {
        endpoint.sleep(Seconds(endpoint.rank()));
        endpoint.compute(work_of(2), ComputeKind::step, [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          if (endpoint.rank() == 1) value = 1;
        });
        return;
      }
      endpoint.sleep(Seconds(1.5));
      endpoint.while_paused([&] { EXPECT_EQ(value, 1); });
      EXPECT_EQ(now(endpoint), 1.5);
    });
  }
}

TEST(SimPause, RunsOnADeepStackAndMustNotBlock) {
  run(slow_machine(1), [](Endpoint& endpoint) {
    int sum = 0;
    endpoint.while_paused([&] {
      volatile char large[1 << 20];
      large[0] = 3;
      sum += large[0];
    });
    EXPECT_EQ(sum, 3);
  });
  EXPECT_THAT(failure_of<CheckFailure>(
                  slow_machine(1),
                  [](Endpoint& endpoint) { endpoint.while_paused([&] { endpoint.sleep(1s); }); }),
              testing::HasSubstr("was called where nothing may block"));
}

TEST(SimPause, TogetherLetsNobodyWait) {
  std::vector<double> seen;
  run(slow_machine(3), [&](Endpoint& endpoint) {
    endpoint.sleep(Seconds(endpoint.rank()));
    endpoint.while_paused_together([&] { seen.push_back(now(endpoint)); });
    EXPECT_EQ(now(endpoint), endpoint.rank());
  });
  EXPECT_EQ(seen, (std::vector<double>{0.0}));
}

// --- failures ------------------------------------------------------------------------------------

class Silent final : public Service<int, int> {
  void handle(int, const int&, std::span<const float>, Responder<int> reply) override {
    kept_.push_back(std::move(reply));
  }
  std::vector<Responder<int>> kept_;
};

TEST(SimFailure, DeadlockNamesEveryProcessInOrder) {
  const auto text = failure_of<Error>(slow_machine(5), [](Endpoint& endpoint) {
    float x = 0;
    if (endpoint.rank() == 0) return;
    endpoint.sleep(Seconds(0.5 * endpoint.rank()));
    if (endpoint.rank() == 1) {
      endpoint.background_task("comm", [](Endpoint& self) {
        const auto monitor = self.make_monitor();
        const std::lock_guard lock(*monitor);
        monitor->wait([] { return false; }, "a gradient in the inbox");
      });
      endpoint.comm().receive(3, 7, std::span(&x, 1));
    }
    if (endpoint.rank() == 4) serve<Silent>(endpoint, "scheduler").call(0);
    endpoint.comm().all_reduce(std::span(&x, 1));
  });
  EXPECT_EQ(
      text,
      "deadlock: no process can go on\n"
      "  worker 1: receives from 3, tag 7 (since 0.500 s)\n"
      "  background task \"comm\" of worker 1: waits: a gradient in the inbox (since 0.500 s)\n"
      "  worker 2: waits in all_reduce (2 of 5 arrived) (since 1.000 s)\n"
      "  worker 3: waits in all_reduce (2 of 5 arrived) (since 1.500 s)\n"
      "  worker 4: waits for service \"scheduler\" (since 2.000 s)\n"
      "  worker 0: has ended (since 0.000 s)");
}

TEST(SimFailure, CallsInDestructorsReturnWhileTheRunIsTornDown) {
  struct Farewell {
    Endpoint& endpoint;
    Monitor& monitor;
    int& said;
    ~Farewell() {
      const std::lock_guard lock(monitor);
      monitor.notify_all();
      const int x = 0;
      endpoint.comm().send(0, 0, std::span(&x, 1));
      endpoint.comm().barrier();
      endpoint.compute({}, ComputeKind::vector, [] {});
      ++said;
    }
  };
  int said = 0;
  std::shared_ptr<Monitor> monitor;
  failure_of<Error>(slow_machine(3), [&](Endpoint& endpoint) {
    if (!monitor) monitor = endpoint.make_monitor();
    endpoint.sleep(Seconds(endpoint.rank()));
    if (endpoint.rank() == 2) throw runtime_failure("end");
    const Farewell farewell{endpoint, *monitor, said};
    const std::lock_guard lock(*monitor);  // rank 1 waits for it
    endpoint.sleep(100s);
  });
  EXPECT_EQ(said, 2);
}

TEST(SimFailure, AbortIsSeenAtTheNextEvent) {
  const auto cluster = make_cluster("sim", slow_machine(2));
  double last = 0;
  EXPECT_THROW(cluster->run([&](Endpoint& endpoint) {
    for (int i = 0; i < 100; ++i) {
      endpoint.sleep(1s);
      last = now(endpoint);
      if (i == 4) cluster->abort(std::make_exception_ptr(runtime_failure("SIGINT")));
    }
  }),
               Error);
  EXPECT_EQ(last, 5.0);
}

TEST(SimFailure, SpeedsAndScalesMustBePositive) {
  ClusterOptions options = slow_machine(2);
  options.speed = {1, 0};
  EXPECT_THROW(make_cluster("sim", options), Error);
  options = slow_machine(2);
  options.payload_scale = -1;
  EXPECT_THROW(make_cluster("sim", options), Error);
}

// --- scale ---------------------------------------------------------------------------------------

constexpr int kManyWorkers = test::effort(10'000, 2000, 500);

TEST(SimScale, ManyWorkersSynchroniseAndPassMessages) {
  const auto report = run(slow_machine(kManyWorkers), [](Endpoint& endpoint) {
    std::int64_t x = endpoint.rank();
    endpoint.comm().all_reduce(std::span(&x, 1));
    EXPECT_EQ(x, std::int64_t{kManyWorkers} * (kManyWorkers - 1) / 2);
    const int to = (endpoint.rank() + 1) % kManyWorkers,
              from = (endpoint.rank() + kManyWorkers - 1) % kManyWorkers;
    std::int64_t mine = endpoint.rank(), received = -1;
    endpoint.comm().send(to, 0, std::span(&mine, 1));
    endpoint.comm().receive<std::int64_t>(from, 0, {&received, 1});
    EXPECT_EQ(received, from);
  });
  EXPECT_GE(report.events, static_cast<std::uint64_t>(5 * kManyWorkers));
}

TEST(SimScale, BackgroundTasksMayComeAndGo) {
  int sum = 0;
  run(slow_machine(1), [&](Endpoint& endpoint) {
    for (int i = 0; i < 20'000; ++i) {
      endpoint.background_task("short", [&sum](Endpoint& self) {
        self.sleep(Seconds(0.5));
        ++sum;
      });
      endpoint.sleep(1s);
    }
  });
  EXPECT_EQ(sum, 20'000);
}

}  // namespace
}  // namespace hetsgd::sim
